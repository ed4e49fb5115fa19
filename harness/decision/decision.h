#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/decision/facts.h"
#include "harness/diagnosis/diagnose.h"
#include "harness/judge/verdict.h"

/// The one place that decides on a finding. docs/rounding.md shows the table and the reasons.
namespace lockstep::decision {

/// A check that is red or open, before any trial.
struct Finding {
  checks::CheckResult result;
  std::vector<std::string> sides;  ///< variants that the check compares, the resumed one last
  bool is_of_repeats = false;      ///< the sides are runs of one variant
  bool wants_same_bits = false;
  bool is_up_to_rounding = false;
  bool can_step_alone = true;    ///< a program of its own has no switch for single steps
  bool has_both_runs = true;     ///< neither side is a golden or a closed form
  bool differs_slightly = true;  ///< so little that rounding could explain it
};

/// The observation that decided, and the verdict that it leads to.
enum class Row {
  kTold,
  kReplayLost,
  kCannotRound,
  kNamed,
  kUnchanged,
  kReplayDiffers,
  kFollowsFill,
  kVaries,
  kBeginsEarlier,
  kStaysInFloat64,
  kRanksDisagree,
  kBehindRounding,
  kPairsDiffer,
  kBeyondRounding,
  kShrinks,
  kFloat64Open,
  kFloat64Silent,
  kNotFinite,
  kLargerThanOneSample,
  kHorizon,
  kStepsUndecided,
  kAllShrink,
  kStepsImpossible,
  kStepDiffersInFloat64,
  kUpdateDiffers,
  kStepsUnfinished,
  kNoStepCompared,
  kStepsAgree,
  kStepDiffersAgain,
  kNoOtherWeights,
  kStepDiffersOnce,
};

struct Known;

/// A name for people and folders: "replay_often".
std::string_view name_of(Trial trial);

/// A side that did not reproduce, and where.
struct Unstable {
  Divergence at;
  std::string variant;
};

/// All that the facts so far say of a finding.
struct Decision {
  std::optional<Trial> next;  ///< nothing: it is decided
  Row row = Row::kUnchanged;
  checks::CheckResult result;
  diagnosis::Again again = diagnosis::Again::kNotTried;  ///< the finding, when its runs were repeated
  bool has_moved = false;                                ///< it is now behind rounding, or at an earlier place
  bool asks_steps = false;                               ///< single steps from one state can decide
  std::vector<judge::Experiment> shown = {};             ///< one line for each fact of use
  std::optional<Unstable> unstable = {};

  bool differs() const { return result.divergence.has_value(); }
  const Divergence& at() const { return *result.divergence; }
  bool is_mistake() const { return differs() && result.is_no_rounding; }
};

/// A row of the table of docs/rounding.md.
struct RowInfo {
  Row row;
  std::string_view id;  ///< "stays_in_float64", as its anchor in docs/rounding.md
  bool (*when)(const Known&);
  void (*then)(const Known&, Decision& now);  ///< what follows, into a copy of the decision before
};

/// All rows, in order: the first whose condition holds counts.
std::span<const RowInfo> rows();
std::string_view name_of(Row row);

/// Decides by the facts so far, in the order in which they came. It says which trial comes next, or that none can
/// change the verdict. Pure: equal facts, equal decision.
Decision decide(const Finding& finding, const std::vector<Fact>& facts);

/// The row of a result without any trial.
Row row_of(const checks::CheckResult& result);

/// "w3" of the run "w3/0".
inline std::string variant_of(const std::string& run) { return run.substr(0, run.rfind('/')); }

}  // namespace lockstep::decision
