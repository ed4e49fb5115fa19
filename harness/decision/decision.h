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

/// The observation that decided, and the verdict that it leads to.
enum class Row {
  kUnchanged,
  kTold,
  kCannotRound,
  kNamed,
  kReplayLost,
  kReplayDiffers,
  kVaries,
  kFollowsFill,
  kRanksDisagree,
  kFloat64Silent,
  kStaysInFloat64,
  kBeginsEarlier,
  kBehindRounding,
  kBeyondRounding,
  kShrinks,
  kFloat64Open,
  kNotFinite,
  kPairsDiffer,
  kHorizon,
  kLargerThanOneSample,
  kAllShrink,
  kStepsUndecided,
  kStepsImpossible,
  kStepsUnfinished,
  kNoStepCompared,
  kStepsAgree,
  kStepDiffersInFloat64,
  kUpdateDiffers,
  kStepDiffersAgain,
  kStepDiffersOnce,
  kNoOtherWeights,
};

struct RowInfo {
  Row row;
  std::string_view id;       ///< "stays_in_float64"
  std::string_view seen;     ///< the observation
  std::string_view verdict;  ///< class of the finding, or how the check ends
};

/// All rows, in order.
std::span<const RowInfo> rows();
std::string_view name_of(Row row);

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
  std::vector<judge::Experiment> shown = {};             ///< one line for each fact of use
  std::optional<Unstable> unstable = {};

  bool differs() const { return result.divergence.has_value(); }
  const Divergence& at() const { return *result.divergence; }
  bool is_mistake() const { return differs() && result.is_no_rounding; }
};

/// Decides by the facts so far, in the order in which they came. It says which trial comes next, or that none can
/// change the verdict. Pure: equal facts, equal decision.
Decision decide(const Finding& finding, const std::vector<Fact>& facts);

/// The row of a result without any trial.
Row row_of(const checks::CheckResult& result);

/// "w3" of the run "w3/0".
inline std::string variant_of(const std::string& run) { return run.substr(0, run.rfind('/')); }

}  // namespace lockstep::decision
