#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// What one of two programs does that breaks a law by itself, up to the step where they part, and the other does not.
std::vector<compare::Suspect> suspects_in_broken_laws(const Scene& scene);

}  // namespace lockstep::diagnosis
