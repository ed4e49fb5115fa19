#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/experiment/case.h"
#include "harness/experiment/runs.h"

/// Teacher forcing: every step of all sides begins in the state that the first side had before it. What differs then is
/// of that step, whatever rounding had made of the trainings until there.
namespace lockstep::experiment {

/// The sides of some checks, the first of each leading the others; and all of them in float64, led by the same.
/// *Throws*: InputError where a first side cannot lead.
scenario::Scenario from_one_state(const scenario::Scenario& scenario,
                                  const std::vector<std::vector<std::string>>& sides);

/// The same in float32, from other weights: an activation that lay on the kink of a ReLU does so no more.
scenario::Scenario from_another_state(const scenario::Scenario& scenario,
                                      const std::vector<std::vector<std::string>>& sides);

/// The first, in float32, with the places of what was found looked at closely.
scenario::Scenario from_one_state_there(const scenario::Scenario& scenario,
                                        const std::vector<std::vector<std::string>>& sides,
                                        const std::vector<compare::Divergence>& places);

/// What they are called in a report.
Control one_state();
Control another_state();
Control one_state_there();

/// Both sides of a finding in its runs from one state.
std::pair<Side, Side> sides_from_one_state(const compare::Divergence& at, const Runs& forced);

/// Decides a case where each step of all sides computes the same from one state, up to its own rounding. Where one does
/// not, `one.parts_from_one_state`.
void judge_one_state(Case& one, const Runs& forced);

/// What is there from other weights, too, is a mistake that is made in float32 only; else it stays open.
void judge_another_state(Case& one, const Runs& forced, const Runs& again);

}  // namespace lockstep::experiment
