#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Means over unequal parts that are averaged as if they were equal: unequal samples, or unequal targets, of ranks or
/// of micro-batches. Empty where the parts are equal, or no weighting makes the sides agree.
std::vector<compare::Suspect> suspects_in_loss_weighting(const Scene& scene);

}  // namespace lockstep::diagnosis
