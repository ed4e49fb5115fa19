#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Why sides part in a resumed training: the likeliest cause first. Empty where no cause fits.
std::vector<compare::Suspect> suspects_in_resumption(const Scene& scene);

}  // namespace lockstep::diagnosis
