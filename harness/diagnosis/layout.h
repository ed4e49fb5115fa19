#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Ranks that hold the same numbers of a matrix in other places.
std::vector<compare::Suspect> suspects_in_layout(const Scene& scene);

}  // namespace lockstep::diagnosis
