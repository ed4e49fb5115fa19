#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Why trainings whose ranks have other shares of the batch part by design: layers that look at a whole share, masks
/// that follow a sample's place in it. Empty where shares are alike, and where no such layer is there.
std::vector<compare::Suspect> suspects_in_shares(const Scene& scene);

}  // namespace lockstep::diagnosis
