#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of different learning rates, the likeliest first. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_rates(const Scene& scene);

}  // namespace lockstep::diagnosis
