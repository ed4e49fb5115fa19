#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harness/laws/held.h"
#include "harness/laws/law.h"

/// The linear part of an optimizer's update: sketches prove it, and no tensor is needed.
namespace lockstep::laws {

/// One parameter in one step of one rank. A record that is missing is null.
struct Updated {
  Json options;  ///< of its group
  double rate = 0;
  const trace::Record *gradient = nullptr, *weight_before = nullptr, *weight = nullptr;
  const trace::Record *state_before = nullptr, *state = nullptr;
};

/// State of an optimizer that is linear in gradient and weight: "momentum_buffer"; empty if it has none.
std::string linear_state(const std::string& kind, const Json& options);

/// Why the hyperparameters of a run are not known; empty if they are.
std::string unknown_hyperparameters(const scenario::Promises& promises);

/// Calls `visit` with every parameter that a recorded step updates, until it returns false. Steps whose previous step
/// is not recorded, and gradients that are not finite, are left out.
void for_each_update(const trace::RunTrace& run, const scenario::Promises& promises,
                     const std::function<bool(const RecordPlace&, const Updated&)>& visit);

}  // namespace lockstep::laws
