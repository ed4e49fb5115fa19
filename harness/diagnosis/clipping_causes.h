#pragma once

#include <cstdint>
#include <vector>

#include "harness/compare/suspect.h"
#include "harness/diagnosis/scene.h"
#include "harness/trace/trace.h"

namespace lockstep::diagnosis {

/// Causes of gradients that are not clipped to the recipe's norm. Empty if they are, if the recipe does not clip, or if
/// no cause fits.
std::vector<compare::Suspect> suspects_in_clipping(const trace::RunTrace& run, const scenario::Promises& promises,
                                                   std::int64_t step);

/// Two programs that call the clipping differently: one not at all, before unscaling, or for each micro-batch.
std::vector<compare::Suspect> suspects_in_calls_of_clipping(const Scene& scene);

/// Two programs that clip to different thresholds, in all steps.
std::vector<compare::Suspect> suspects_in_thresholds(const Scene& scene);

}  // namespace lockstep::diagnosis
