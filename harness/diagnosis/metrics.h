#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Sums over the ranks that were divided by another number than the ranks': reduced losses, by the ranks' own ones, and
/// metrics, by the other side's. Empty where no whole number fits.
std::vector<compare::Suspect> suspects_in_metrics(const Scene& scene);

}  // namespace lockstep::diagnosis
