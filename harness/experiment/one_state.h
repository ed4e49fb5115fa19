#pragma once

#include <utility>
#include <vector>

#include "harness/experiment/case.h"
#include "harness/experiment/runs.h"

/// Teacher forcing: each step of all sides starts from the first side's state. A difference then comes from that step
/// alone, no matter how far rounding had grown before.
namespace lockstep::experiment {

/// Runs from one state in float32 and in float64; the first side of each check provides the state. If all cases are
/// known mistakes, the runs end at them: only earlier steps matter. *Throws*: InputError if no such training exists.
scenario::Scenario from_one_state(const scenario::Scenario& scenario, const std::vector<Case*>& cases);

/// The same in float32 from other weights, to move activations off the kink of a ReLU.
scenario::Scenario from_another_state(const scenario::Scenario& scenario, const std::vector<Case*>& cases);

/// `from_one_state` in float32, with the places of the findings captured.
scenario::Scenario from_one_state_there(const scenario::Scenario& scenario, const std::vector<Case*>& cases);

/// Controls under which a report lists these runs.
Control one_state();
Control another_state();
Control one_state_there();

/// Both sides of a finding in its runs from one state.
std::pair<Side, Side> sides_from_one_state(const compare::Divergence& at, const Runs& forced);

/// Decides a case. A step that differs in both precisions by more than rounding is a mistake. If all steps of all sides
/// agree up to their own rounding, so do the trainings. A step that differs in float32 only sets
/// `one.parts_from_one_state`.
void judge_one_state(Case& one, const Runs& forced);

/// Replays the float32 runs that showed a mistake: a result that changes is non-reproducible.
void judge_one_state_again(Case& one, const Runs& forced, const Runs& again);

/// A step that differs in float32 from other weights too is a mistake in float32 only; otherwise the case stays open.
/// `before`: the runs that were judged.
void judge_another_state(Case& one, const Runs& before, const Runs& forced, const Runs& again);

}  // namespace lockstep::experiment
