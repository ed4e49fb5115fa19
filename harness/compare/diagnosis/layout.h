#pragma once

#include <vector>

#include "harness/compare/diagnosis/scene.h"

namespace lockstep::compare {

/// Ranks that hold the same numbers of a matrix in other places.
std::vector<Suspect> suspects_in_layout(const Scene& scene);

}  // namespace lockstep::compare
