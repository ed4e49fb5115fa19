#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of a divergence of class "rounding", the likeliest first; `fp.rounding` if none is known. Empty for other
/// classes.
std::vector<compare::Suspect> suspects_in_rounding(const Scene& scene);

}  // namespace lockstep::diagnosis
