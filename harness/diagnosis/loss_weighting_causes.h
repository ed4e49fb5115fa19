#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Means over unequal parts (ranks or micro-batches with different numbers of samples or targets) that are averaged
/// without weights. Empty if the parts are equal, or if no weighting makes the sides agree.
std::vector<compare::Suspect> suspects_in_loss_weighting(const Scene& scene);

}  // namespace lockstep::diagnosis
