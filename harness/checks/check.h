#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/scope.h"
#include "harness/diagnosis/scene.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::checks {

/// How one run ended.
struct Ending {
  std::string run;
  std::optional<compare::Divergence> failure;  ///< where the run failed by its own fault
  std::string undecided;                       ///< why its outcome is unknown
};

/// Input of a check.
struct CheckInput {
  const scenario::Scenario& scenario;
  const scenario::CheckSpec& spec;
  /// Complete traces of all repeats, for each variant that the check names.
  const std::map<std::string, std::vector<const trace::RunTrace*>>& traces;
  /// SHA-256 of each variant's recipe.
  std::map<std::string, std::string> train_digests;
  std::filesystem::path golden_root;
  /// Endings of all runs of each variant, with or without a trace.
  std::map<std::string, std::vector<Ending>> endings = {};

  const std::vector<const trace::RunTrace*>& of(const std::string& variant) const { return traces.at(variant); }

  /// Promises of the variant that made one of the traces.
  const scenario::Promises& promises_of(const trace::RunTrace& run) const;
};

/// Context that diagnosis needs to explain a divergence of a check. *Lifetime*: of the input's traces and scenario.
diagnosis::Question question_of(const CheckInput& input);

/// Result of a check.
struct CheckResult {
  enum class Status {
    kAgree,
    kDivergence,
    kBaseline,      ///< no golden to compare with: missing or stale
    kInconclusive,  ///< it could not be decided
  };
  Status status = Status::kAgree;
  std::size_t compared = 0;  ///< records compared
  std::optional<compare::Divergence> divergence;
  bool is_no_rounding = false;  ///< control runs or other ranks show that rounding does not explain the divergence
  std::string why;              ///< for kBaseline, kInconclusive, and divergences without a place in a trace
  std::string next;             ///< what the user should do
  /// Further comparisons of the check that do not hold, in order: of other variants or repeats.
  std::vector<CheckResult> others = {};
  std::map<std::string, std::string> goldens = {};  ///< files that it compared with: their SHA-256
};

/// Channels that a check compares, in order: those it names, else all, as far as all sides record them. `same_shape`:
/// whether the runs have the same number of ranks and micro-batches, since fewer channels are comparable otherwise.
std::vector<trace::Channel> channels_of(const std::vector<trace::Channel>& named,
                                        const std::vector<const scenario::Promises*>& sides, bool same_shape);

/// Channels of a check within one run. It loses none because another variant of the check does not record it.
std::vector<trace::Channel> channels_of(const CheckInput& input, const trace::RunTrace& run);

/// Channels of a check between two runs.
std::vector<trace::Channel> channels_of(const CheckInput& input, const trace::RunTrace& left,
                                        const trace::RunTrace& right);

/// Calls `judge` with every repeat of `left` and the same repeat of `right`, and combines the results. If a
/// variant runs less often, its last repeat stands for those that it lacks.
CheckResult for_each_repeat(const CheckInput& input, const std::string& left, const std::string& right,
                            const std::function<CheckResult(const trace::RunTrace&, const trace::RunTrace&)>& judge);

/// Channels of a check up to rounding, out of all that it can compare: those it names, else the training's inputs and
/// results. Collectives and generators are left out: they may differ between trainings that are equal in exact
/// arithmetic.
std::vector<trace::Channel> rounding_channels(const scenario::CheckSpec& spec, std::vector<trace::Channel> all);

/// Channels of a check up to rounding between two runs. Where one side alone has gradients of single ranks, since
/// tensor parallelism reduces none, these are left out.
std::vector<trace::Channel> rounding_channels(const scenario::CheckSpec& spec, std::vector<trace::Channel> all,
                                              const trace::RunTrace& left, const trace::RunTrace& right);

/// Whether a resumption check spans different world sizes: those of the straight run, the saving run and the resumed
/// run. Such runs are equal only up to rounding.
bool resumes_at_another_world_size(const scenario::Scenario& scenario, const scenario::CheckSpec& spec);

/// Scope of a resumption check: the loaded state and every step after the checkpoint. The saving run recorded all that
/// came before. `resumed` must have a step.
compare::Scope after_loading(const scenario::Scenario& scenario, const scenario::CheckSpec& spec,
                             const trace::RunTrace& resumed);

/// First place in these channels where the ranks of one run hold gradients, weights, averages or optimizer states
/// further apart than RoundingBound explains. All ranks hold the result of one reduction, and each adds in its own
/// order at most. Running statistics are left out: each rank may have its own.
std::optional<compare::Divergence> ranks_apart(const trace::RunTrace& run, std::vector<trace::Channel> channels);

/// Whether control runs may follow a judgement.
enum class Rerun { kWherePossible, kNever };

/// Compares two trainings up to rounding. Inconclusive if rounding, NaN or infinity would hide a mistake. Never
/// agreement if the ranks of one of them disagree by more than rounding. Control runs in float64 decide about updates
/// that divide by a root; where there are none, and for programs, SteepUpdates does.
CheckResult judge_rounding(const trace::RunTrace& reference, const trace::RunTrace& other,
                           const std::vector<trace::Channel>& channels, const CheckInput& input,
                           const compare::Scope& scope = {}, Rerun rerun = Rerun::kWherePossible);

/// Advice for a training whose numbers are not finite.
inline constexpr const char* kMendTheTraining = "lower the learning rate, or look for NaN in the data";

/// Turns agreement into inconclusive if numbers are NaN or infinite from `first` on: they hide later differences.
/// `whose`: "a/0 and b/0", or one run.
void hide_from(CheckResult& result, const laws::RecordPlace& first, const std::string& whose);

/// Result of one comparison. It is inconclusive, never agreement, if nothing was compared or if NaN or infinity hide
/// the rest. A difference stays a difference, also behind NaN.
CheckResult result_of(const compare::Comparison& comparison);

/// The same for a check that names channels. It is also inconclusive if one of them was compared nowhere.
CheckResult result_of(const compare::Comparison& comparison, const CheckInput& input);

/// Inconclusive, where the author of a program has not promised all of `parts`: "sampler". Our own worker's are known.
std::optional<CheckResult> lacking_promise(const scenario::Promises& promises, const std::vector<std::string>& parts);

/// The check `covers` of one run.
CheckResult judge_coverage(const trace::RunTrace& run, const scenario::Promises& promises);

/// The training that saved a checkpoint, by the name of its variant. Null: unknown.
using SourceOf = std::function<const scenario::Promises*(const std::string& variant)>;

/// The check `ledger` of one run. `source_of` gives where a resumed training begins. `only_ledger`: without losses and
/// metrics.
CheckResult judge_ledger(const trace::RunTrace& run, const scenario::Promises& promises, const SourceOf& source_of,
                         bool only_ledger);

/// The check `ranks_agree` of one run. Without `channels` it judges all that every rank holds the same by design.
/// `end_step`: this one and later ones are left out. `watch`: for pictures.
compare::Comparison compare_ranks(const trace::RunTrace& run, const scenario::Promises& promises,
                                  const std::vector<trace::Channel>& channels = {},
                                  std::int64_t end_step = compare::kNoStep, const compare::Watch& watch = {});

/// Result of a whole check: agreement without any comparison becomes inconclusive.
CheckResult concluded(CheckResult total);

/// Adds the comparison of other runs to `total`: the first divergence and the worst status win; the rest that does not
/// hold is kept as `others`.
void combine(CheckResult& total, CheckResult next);

/// Adds another part of the same comparison: the first divergence and the worst status win.
void keep_worst(CheckResult& total, CheckResult next);

}  // namespace lockstep::checks
