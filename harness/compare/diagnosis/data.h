#pragma once

#include <vector>

#include "harness/compare/diagnosis/scene.h"

namespace lockstep::compare {

/// Why sides part in samples, inputs and what the ledger counts: the likeliest cause first. Empty where no cause fits.
std::vector<Suspect> suspects_in_data(const Scene& scene);

}  // namespace lockstep::compare
