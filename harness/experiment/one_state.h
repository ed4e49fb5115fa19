#pragma once

#include <utility>
#include <vector>

#include "harness/experiment/case.h"
#include "harness/experiment/runs.h"

/// Teacher forcing: every step of all sides begins in the state that the first side had before it. What differs then is
/// of that step, whatever rounding had made of the trainings until there.
namespace lockstep::experiment {

/// The first side of each check leads the others; and all of them in float64, led by the same. Where all are mistakes
/// already, they end there: what each step does is looked at for what comes before. *Throws*: InputError where no such
/// training exists.
scenario::Scenario from_one_state(const scenario::Scenario& scenario, const std::vector<Case*>& cases);

/// The same in float32, from other weights: an activation that lay on the kink of a ReLU does so no more.
scenario::Scenario from_another_state(const scenario::Scenario& scenario, const std::vector<Case*>& cases);

/// The first, in float32, with the places of what was found looked at closely.
scenario::Scenario from_one_state_there(const scenario::Scenario& scenario, const std::vector<Case*>& cases);

/// What they are called in a report.
Control one_state();
Control another_state();
Control one_state_there();

/// Both sides of a finding in its runs from one state.
std::pair<Side, Side> sides_from_one_state(const compare::Divergence& at, const Runs& forced);

/// Decides a case: what a step makes in both precisions of one state, and no rounding does, is a mistake; where all
/// steps of all sides compute the same up to their own rounding, so do the trainings. Where a step is apart in float32
/// alone, `one.parts_from_one_state`.
void judge_one_state(Case& one, const Runs& forced);

/// The runs in float32 that showed a mistake, once more: what does not come out again is random.
void judge_one_state_again(Case& one, const Runs& forced, const Runs& again);

/// What is apart in float32 from other weights, too, is a mistake that is made there only; else it stays open.
/// `before`: the runs that were judged.
void judge_another_state(Case& one, const Runs& before, const Runs& forced, const Runs& again);

}  // namespace lockstep::experiment
