#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Two programs whose generators differ. One was never seeded, or too late: after something was drawn from it.
std::vector<compare::Suspect> suspects_in_seeds(const Scene& scene);

}  // namespace lockstep::diagnosis
