#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of different losses and gradients, before or after the reduction; the likeliest first. Empty if no cause
/// fits.
std::vector<compare::Suspect> suspects_in_gradients(const Scene& scene);

}  // namespace lockstep::diagnosis
