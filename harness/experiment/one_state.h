#pragma once

#include <vector>

#include "harness/experiment/case.h"
#include "harness/experiment/control.h"

/// Teacher forcing: each step of all sides starts from the first side's state. A difference then comes from that step
/// alone, no matter how far rounding had grown before.
namespace lockstep::experiment {

/// Runs from one state in float32 and in float64; the first side of each check provides the state. If all cases are
/// known mistakes, the runs end at them: only earlier steps matter. *Throws*: InputError if no such training exists.
scenario::Scenario from_one_state(const scenario::Scenario& scenario, const std::vector<const Case*>& cases);

/// The same in float32 from other weights, to move activations off the kink of a ReLU.
scenario::Scenario from_another_state(const scenario::Scenario& scenario, const std::vector<const Case*>& cases);

/// `from_one_state` in float32, with the places of the findings captured.
scenario::Scenario from_one_state_there(const scenario::Scenario& scenario, const std::vector<const Case*>& cases);

/// `forced`: the runs from one state. A step differs if it differs by more than the rounding of one step.
OneState read_one_state(const Case& one, const Runs& forced);

/// Steps that differ in float32 from other weights too. `before`: the first runs.
AnotherState read_another_state(const Case& one, const Runs& before, const Runs& forced, const Runs& again);

OneStateThere read_one_state_there(const Case& one, const Runs& forced, const Runs& again);

}  // namespace lockstep::experiment
