#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Why sides part in what generators hold, or in what does not come out again: the likeliest cause first. Empty where
/// no cause fits.
std::vector<compare::Suspect> suspects_in_random(const Scene& scene);

}  // namespace lockstep::diagnosis
