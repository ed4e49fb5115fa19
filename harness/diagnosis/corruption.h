#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// A tensor of one rank that parts from the other ranks', or from the other side's, in one or few elements while all
/// that it was made from agrees. Empty where the difference is spread.
std::vector<compare::Suspect> suspects_in_corruption(const Scene& scene);

}  // namespace lockstep::diagnosis
