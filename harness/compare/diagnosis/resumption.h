#pragma once

#include <vector>

#include "harness/compare/diagnosis/scene.h"

namespace lockstep::compare {

/// Why sides part in a resumed training: the likeliest cause first. Empty where no cause fits.
std::vector<Suspect> suspects_in_resumption(const Scene& scene);

}  // namespace lockstep::compare
