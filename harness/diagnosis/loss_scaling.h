#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Own gradients that are the other side's, times one factor for all parameters: a loss that is multiplied by ranks,
/// not divided by micro-batches, or divided by a count that is not its own. Empty where no cause fits.
std::vector<compare::Suspect> suspects_in_loss_scaling(const Scene& scene);

}  // namespace lockstep::diagnosis
