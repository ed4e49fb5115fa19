#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Programs of several ranks whose gradients before the reduction were not recorded, because no backward pass of theirs
/// reduces. With the losses of the other side, the ranks' own gradients are the other side's. Alone, ranks that update
/// with different gradients and exchange nothing reduce nothing.
std::vector<compare::Suspect> suspects_in_unrecorded_reduction(const Scene& scene);

}  // namespace lockstep::diagnosis
