#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of rounding that lie in the environments of the runs, not in their recipes.
std::vector<compare::Suspect> suspects_in_environment(const Scene& scene);

}  // namespace lockstep::diagnosis
