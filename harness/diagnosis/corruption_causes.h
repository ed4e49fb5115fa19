#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Corruption of one rank's tensor: one or a few elements differ from the other ranks or the other side, but all inputs
/// agree. Empty if the difference is spread over the tensor.
std::vector<compare::Suspect> suspects_in_corruption(const Scene& scene);

}  // namespace lockstep::diagnosis
