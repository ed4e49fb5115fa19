#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of ranks that should hold equal state but do not, the likeliest first. Between two runs: for the run whose
/// ranks disagree. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_ranks(const Scene& scene);

}  // namespace lockstep::diagnosis
