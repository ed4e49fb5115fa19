#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/scenario/scenario.h"

/// A finding that is left open, or that nobody understands, is tried again with one thing changed.
namespace lockstep::experiment {

/// What a control run changes in every variant: one thing.
struct Control {
  std::string id;  ///< also the folder of its runs
  Json patch;      ///< merged into a variant: {"train": …, "launch": …}
};

/// Nothing changed: what does not come out again is no property of the training.
Control replay();

/// Everything computed in float64: rounding shrinks by about 2^29, a mistake stays.
Control in_float64();

/// The scenario's variants of these names, and those whose checkpoints they load, once each under a control; no checks.
scenario::Scenario under(const Control& control, const scenario::Scenario& scenario,
                         const std::vector<std::string>& variants);

}  // namespace lockstep::experiment
