#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// What a divergence of class "rounding" comes from: the likeliest cause first, `fp.rounding` where nothing is known.
/// Empty for other classes.
std::vector<compare::Suspect> suspects_in_rounding(const Scene& scene);

}  // namespace lockstep::diagnosis
