#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Why sides part in losses and gradients, before and after the reduction: the likeliest cause first. Empty where no
/// cause fits.
std::vector<compare::Suspect> suspects_in_gradients(const Scene& scene);

}  // namespace lockstep::diagnosis
