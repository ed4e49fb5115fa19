#pragma once

#include <vector>

#include "harness/compare/diagnosis/scene.h"

namespace lockstep::compare {

/// Why the ranks of one run, which are to hold the same, do not: the likeliest cause first. Of two runs, of that one
/// whose ranks part. Empty where no cause fits.
std::vector<Suspect> suspects_in_ranks(const Scene& scene);

}  // namespace lockstep::compare
