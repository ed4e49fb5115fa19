#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Why sides part in samples, inputs and what the ledger counts: the likeliest cause first. Empty where no cause fits.
std::vector<compare::Suspect> suspects_in_data(const Scene& scene);

}  // namespace lockstep::diagnosis
