#pragma once

#include <vector>

#include "harness/compare/diagnosis/scene.h"

namespace lockstep::compare {

/// Why sides part in what the ranks of one run hold: the likeliest cause first. Empty where no cause fits.
std::vector<Suspect> suspects_in_ranks(const Scene& scene);

}  // namespace lockstep::compare
