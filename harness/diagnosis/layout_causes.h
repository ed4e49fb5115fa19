#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Matrices that hold the same numbers in another memory layout on some ranks.
std::vector<compare::Suspect> suspects_in_layout(const Scene& scene);

}  // namespace lockstep::diagnosis
