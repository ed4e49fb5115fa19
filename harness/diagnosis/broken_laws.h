#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of a law that one of two programs breaks by itself. Empty if the other breaks it, too, or if it is broken
/// only after the step where they part.
std::vector<compare::Suspect> suspects_in_broken_laws(const Scene& scene);

}  // namespace lockstep::diagnosis
