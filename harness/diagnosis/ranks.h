#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Why the ranks of one run, which are to hold the same, do not: the likeliest cause first. Of two runs, of that one
/// whose ranks part. Empty where no cause fits.
std::vector<compare::Suspect> suspects_in_ranks(const Scene& scene);

}  // namespace lockstep::diagnosis
