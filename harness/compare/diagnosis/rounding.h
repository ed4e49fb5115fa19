#pragma once

#include <vector>

#include "harness/compare/diagnosis/scene.h"

namespace lockstep::compare {

/// What a divergence of class "rounding" comes from: the likeliest cause first, `fp.rounding` where nothing is known.
/// Empty for other classes.
std::vector<Suspect> suspects_in_rounding(const Scene& scene);

}  // namespace lockstep::compare
