#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of different generator states and of non-reproducible results, the likeliest first. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_random(const Scene& scene);

}  // namespace lockstep::diagnosis
