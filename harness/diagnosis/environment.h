#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Rounding that comes from where the trainings ran, and not from what they were asked to compute.
std::vector<compare::Suspect> suspects_in_environment(const Scene& scene);

}  // namespace lockstep::diagnosis
