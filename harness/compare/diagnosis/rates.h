#pragma once

#include <vector>

#include "harness/compare/diagnosis/scene.h"

namespace lockstep::compare {

/// Why sides part in the learning rate: the likeliest cause first. Empty where no cause fits.
std::vector<Suspect> suspects_in_rates(const Scene& scene);

}  // namespace lockstep::compare
