#pragma once

#include <vector>

#include "harness/compare/diagnosis/scene.h"

namespace lockstep::compare {

/// Why sides part in optimizer state, weights and averages: the likeliest cause first. Empty where no cause fits.
std::vector<Suspect> suspects_in_update(const Scene& scene);

}  // namespace lockstep::compare
