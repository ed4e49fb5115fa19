#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Reduced losses and metrics that were divided by a wrong number of ranks. Losses are compared with the ranks' local
/// ones, metrics with the other side's. Empty if no whole number fits.
std::vector<compare::Suspect> suspects_in_metrics(const Scene& scene);

}  // namespace lockstep::diagnosis
