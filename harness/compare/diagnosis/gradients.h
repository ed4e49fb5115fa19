#pragma once

#include <vector>

#include "harness/compare/diagnosis/scene.h"

namespace lockstep::compare {

/// Why sides part in losses and gradients, before and after the reduction: the likeliest cause first. Empty where no
/// cause fits.
std::vector<Suspect> suspects_in_gradients(const Scene& scene);

}  // namespace lockstep::compare
