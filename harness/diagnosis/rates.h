#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Why sides part in the learning rate: the likeliest cause first. Empty where no cause fits.
std::vector<compare::Suspect> suspects_in_rates(const Scene& scene);

}  // namespace lockstep::diagnosis
