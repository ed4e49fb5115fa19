#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of local gradients that differ from the other side's by one factor. The loss was multiplied by ranks, not
/// divided by micro-batches, or divided by a wrong count. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_loss_scaling(const Scene& scene);

}  // namespace lockstep::diagnosis
