#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of different samples, inputs or ledger counts, the likeliest first. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_data(const Scene& scene);

}  // namespace lockstep::diagnosis
