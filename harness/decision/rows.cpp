#include <array>

#include "harness/decision/decision.h"

namespace lockstep::decision {
namespace {

constexpr std::array kRows = {
    RowInfo{Row::kUnchanged, "unchanged", "no trial says more than the comparison", "as compared"},
    RowInfo{Row::kTold, "told", "the cause was known before any trial: a changed recipe", "semantic"},
    RowInfo{Row::kCannotRound, "cannot_round", "ids, inputs, counters or generators differ, which cannot round",
            "semantic"},
    RowInfo{Row::kNamed, "named", "the comparison names a cause that is no rounding, and no trial refutes it",
            "class of the cause"},
    RowInfo{Row::kReplayLost, "replay_lost", "a run did not finish when it was replayed", "as compared"},
    RowInfo{Row::kReplayDiffers, "replay_differs", "one replay differs, more do not", "nondeterminism, once"},
    RowInfo{Row::kVaries, "varies", "several replays differ", "nondeterminism"},
    RowInfo{Row::kFollowsFill, "follows_fill", "the result follows the pattern in fresh memory, each time",
            "nondeterminism: mem.uninitialised"},
    RowInfo{Row::kRanksDisagree, "ranks_disagree", "the ranks of one run disagree by more than rounding", "semantic"},
    RowInfo{Row::kFloat64Silent, "float64_silent", "float64 proves nothing here", "as compared"},
    RowInfo{Row::kStaysInFloat64, "stays_in_float64", "the difference stays in float64", "semantic"},
    RowInfo{Row::kBeginsEarlier, "begins_earlier",
            "a difference that stays in float64 begins earlier, within the bound", "semantic, at the earlier place"},
    RowInfo{Row::kBehindRounding, "behind_rounding", "the first difference shrinks, a later one stays in float64",
            "semantic, at the later place"},
    RowInfo{Row::kBeyondRounding, "beyond_rounding", "a difference shrinks, but is larger than any rounding",
            "semantic: in float32 only"},
    RowInfo{Row::kShrinks, "shrinks", "the difference shrinks in float64 as rounding does", "rounding"},
    RowInfo{Row::kFloat64Open, "float64_open", "the difference neither shrinks as rounding does nor stays",
            "undecided"},
    RowInfo{Row::kNotFinite, "not_finite", "nothing is found before NaN or infinity, which hides the rest",
            "inconclusive; of a check equal: undecided"},
    RowInfo{Row::kPairsDiffer, "pairs_differ", "two trainings differ in float64", "divergence"},
    RowInfo{Row::kHorizon, "horizon",
            "rounding in float32 has grown to the size of the values, and single steps are open", "inconclusive"},
    RowInfo{Row::kLargerThanOneSample, "larger_than_one_sample",
            "it shrinks, but is larger than one sample can make it, and single steps are open", "inconclusive"},
    RowInfo{Row::kAllShrink, "all_shrink", "every difference of all pairs shrinks", "agree"},
    RowInfo{Row::kStepsUndecided, "steps_undecided", "every difference shrinks, and single steps are open",
            "inconclusive"},
    RowInfo{Row::kStepsImpossible, "steps_impossible", "single steps cannot be tried", "inconclusive"},
    RowInfo{Row::kStepsUnfinished, "steps_unfinished", "a training from one state does not finish", "inconclusive"},
    RowInfo{Row::kNoStepCompared, "no_step_compared", "no step from one state could be compared", "inconclusive"},
    RowInfo{Row::kStepsAgree, "steps_agree", "each step from one state is within the rounding of one step",
            "agree; of a check equal: rounding"},
    RowInfo{Row::kStepDiffersInFloat64, "step_differs_in_float64", "one step from one state differs in float64",
            "semantic"},
    RowInfo{Row::kUpdateDiffers, "update_differs", "one update from equal gradients differs more than rounding allows",
            "semantic: in float32 only"},
    RowInfo{Row::kStepDiffersAgain, "step_differs_again", "one step differs in float32, from other weights too",
            "semantic: in float32 only"},
    RowInfo{Row::kStepDiffersOnce, "step_differs_once", "one step differs in float32, and not from other weights",
            "inconclusive; of a check equal: undecided"},
    RowInfo{Row::kNoOtherWeights, "no_other_weights",
            "one step differs in float32, and no other weights could be tried",
            "inconclusive; of a check equal: undecided"},
};

}  // namespace

std::span<const RowInfo> rows() { return kRows; }

std::string_view name_of(Row row) { return kRows[static_cast<std::size_t>(row)].id; }

}  // namespace lockstep::decision
