#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harness/decision/decision.h"
#include "harness/diagnosis/causes.h"

namespace lockstep::decision {

/// A side whose runs differ.
struct Varying {
  Unstable side;
  bool is_to_be_tried = true;  ///< by the trials from here on
  bool both_sides = false;     ///< seen in runs of each side of the finding
  Closeup closeup = {};
};

/// Observations in one fact. Float64 shows two things, one after the other: of the finding's sides, then of all pairs.
struct Seen {
  std::string_view control = {};  ///< "float64"
  std::string text = {};          ///< for people
  bool is_over = false;           ///< no fact is left
  bool differs_once = false;      ///< a replay of the finding's
  bool no_steps = false;          ///< single steps are impossible
  std::optional<Varying> varying = {};
  const Filled* follows = nullptr;                 ///< the pattern in fresh memory, each time
  bool is_of_pairs = false;                        ///< and not of the finding's sides
  const InFloat64* trainings = nullptr;            ///< the finding's sides, or the first pair that shows a mistake
  std::optional<compare::Ladder::Says> says = {};  ///< of the finding's place
  bool is_silent = false;                          ///< float64 proves nothing
  bool is_hidden = false;                          ///< by NaN or infinity
  bool all_shrink = false;                         ///< each difference of each pair
  const InFloat64* late = nullptr;                 ///< the first pair that differs, from its horizon on
  bool in_16_bits = false, in_32_bits = false;     ///< of pairs: one at least
  const Steps* mistake = nullptr;                  ///< a single step, unless a mistake before it is known
  bool is_unfinished = false;                      ///< a training from one state
  bool steps_agree = false;                        ///< single steps, as far as some could be compared
  std::size_t compared = 0;                        ///< records of all pairs, or of single steps
  bool agrees_elsewhere = false;                   ///< a step that differs, from other weights
  bool no_other_weights = false;                   ///< to try that
};

/// Observations in all facts so far, and the decision that the rows have made of them. No fact takes back what another
/// shows.
struct Known {
  const Finding& finding;
  Decision now;
  Seen seen = {};                ///< by the fact that the rows read
  bool is_lost = false;          ///< a replay did not finish
  bool varies = false;           ///< more runs of a side differed, too
  bool is_seen_closely = false;  ///< and where, in its elements
  bool is_small = false;         ///< the finding is no larger than one sample's effect
  bool step_differs = false;     ///< a single step, in float32
  bool came_out_again = false;   ///< a step that is a mistake
  bool follows_fill = false;     ///< a result follows the pattern in fresh memory

  bool differs() const { return now.differs(); }
  const Divergence& at() const { return now.at(); }
  bool is_inconclusive() const { return now.result.status == checks::CheckResult::Status::kInconclusive; }
  bool is_called_rounding() const { return differs() && at().class_ == scenario::Class::kRounding; }
  bool is_open() const { return is_called_rounding() || (differs() && at().suspects.empty()); }

  /// How its cause is known; without one, by signs.
  diagnosis::Known cause() const {
    if (!differs() || at().suspects.empty()) return diagnosis::Known::kBySigns;
    return diagnosis::find_cause(at().suspects[0].cause)->known;
  }
};

/// Adds elements and operators to the finding.
void see(Decision& now, const Closeup& closeup);

/// Takes back that the finding may be rounding.
void rule_out_rounding(Decision& now);

}  // namespace lockstep::decision
