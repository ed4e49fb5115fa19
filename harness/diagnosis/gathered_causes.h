#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Features that one program gathers from all ranks with their gradient, and the other without. Empty if the losses
/// differ, or if the collectives of both are alike.
std::vector<compare::Suspect> suspects_in_gathered(const Scene& scene);

}  // namespace lockstep::diagnosis
