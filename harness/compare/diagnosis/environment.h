#pragma once

#include <vector>

#include "harness/compare/diagnosis/scene.h"

namespace lockstep::compare {

/// Rounding that comes from where the trainings ran, and not from what they were asked to compute.
std::vector<Suspect> suspects_in_environment(const Scene& scene);

}  // namespace lockstep::compare
