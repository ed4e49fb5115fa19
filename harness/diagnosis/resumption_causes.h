#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of a resumed training that differs from the straight one, the likeliest first. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_resumption(const Scene& scene);

}  // namespace lockstep::diagnosis
