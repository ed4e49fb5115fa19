#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Differences by design between ranks' shares of the batch. A layer may see a rank's whole share (BatchNorm), or a
/// mask may depend on a sample's place in it (dropout). Empty if the shares are equal, or if the model has no such
/// layer.
std::vector<compare::Suspect> suspects_in_shares(const Scene& scene);

}  // namespace lockstep::diagnosis
