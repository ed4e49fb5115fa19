#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/runs.h"
#include "harness/diagnosis/scene.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::checks {

/// How one run ended.
struct Ending {
  std::string run;
  std::optional<compare::Divergence> failure;  ///< where it came to grief by its own fault
  std::string undecided;                       ///< why it cannot be told how it would have ended
};

/// What a check looks at.
struct CheckInput {
  const scenario::Scenario& scenario;
  const scenario::CheckSpec& spec;
  /// Traces of the repeats of each variant that the check names, all complete.
  const std::map<std::string, std::vector<const trace::RunTrace*>>& traces;
  /// SHA-256 over what each variant computes.
  std::map<std::string, std::string> train_digests;
  std::filesystem::path golden_root;
  /// Of all runs of each variant, those without a trace among them.
  std::map<std::string, std::vector<Ending>> endings = {};

  const std::vector<const trace::RunTrace*>& of(const std::string& variant) const { return traces.at(variant); }

  /// Of one of the traces.
  const scenario::Promises& promises_of(const trace::RunTrace& run) const;
};

/// What diagnosis is asked about a divergence that a check finds. *Lifetime*: of the input's traces and scenario.
diagnosis::Question question_of(const CheckInput& input);

/// What a check found.
struct CheckResult {
  enum class Status {
    kAgree,
    kDivergence,
    kBaseline,      ///< no golden to hold against: missing, stale
    kInconclusive,  ///< it could not be decided
  };
  Status status = Status::kAgree;
  std::size_t compared = 0;  ///< records held against each other
  std::optional<compare::Divergence> divergence;
  std::string why;   ///< for kBaseline and kInconclusive, and where a divergence has no place in a trace
  std::string next;  ///< what to do about it
};

/// Channels of a check, in order: those that it names, else all that both sides record and that can be compared between
/// runs of the same shape, or of another.
std::vector<trace::Channel> channels_of(const CheckInput& input, bool same_shape);

/// Calls `judge` with every repeat of `left` and the same repeat of `right`, and combines the results.
CheckResult for_each_repeat(const CheckInput& input, const std::string& left, const std::string& right,
                            const std::function<CheckResult(const trace::RunTrace&, const trace::RunTrace&)>& judge);

/// Channels of a check up to rounding: those that it names, else what a training computes and computes it from. How the
/// ranks exchange it, what a generator holds that nobody draws from, and what weights that differ by rounding are
/// worth, may differ where everything else is equal in exact arithmetic.
std::vector<trace::Channel> rounding_channels(const CheckInput& input, bool same_shape);

/// Whether a check holds a resumption against a training of another world size than the one that saved, or resumes:
/// they are equal up to rounding.
bool resumes_at_another_world_size(const scenario::Scenario& scenario, const scenario::CheckSpec& spec);

/// What of a resumed run, which has a step, the straight one is to be equal to: all that comes after the checkpoint,
/// and the state that it holds. What led to that state was recorded by the run that saved it.
compare::Scope after_loading(const scenario::Scenario& scenario, const scenario::CheckSpec& spec,
                             const trace::RunTrace& resumed);

/// Compares up to the rounding of two trainings that are equal in exact arithmetic. Inconclusive where rounding, or NaN
/// and infinity, hide what is asked for.
CheckResult judge_rounding(const trace::RunTrace& reference, const trace::RunTrace& other,
                           const std::vector<trace::Channel>& channels, const CheckInput& input,
                           const compare::Scope& scope = {});

/// What to do about a training whose numbers are not finite.
inline constexpr const char* kMendTheTraining = "lower the learning rate, or look for NaN in the data";

/// Takes back an agreement on numbers that are NaN or infinite from a place on: what follows from them is hidden.
/// `whose`: "a/0 and b/0", or one run.
void hide_from(CheckResult& result, const laws::RecordPlace& first, const std::string& whose);

/// The result of one comparison: nothing compared, or only NaN and infinity from some place on, is inconclusive, never
/// agreement. A difference is a difference, wherever it stands.
CheckResult result_of(const compare::Comparison& comparison);

/// The same for a check that may name channels: one of them compared nowhere is inconclusive, too.
CheckResult result_of(const compare::Comparison& comparison, const CheckInput& input);

/// The result of a whole check: agreement on nothing is inconclusive.
CheckResult concluded(CheckResult total);

/// Adds `next` to `total`: the first divergence and the worst status win.
void combine(CheckResult& total, CheckResult next);

}  // namespace lockstep::checks
