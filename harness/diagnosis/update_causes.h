#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of different optimizer state, weights or averages, the likeliest first. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_update(const Scene& scene);

}  // namespace lockstep::diagnosis
