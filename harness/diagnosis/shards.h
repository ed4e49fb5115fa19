#pragma once

#include <cstdint>
#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// What is wrong with the shares that the ranks of one run take in the epoch of this step: no sampler by rank, or ranks
/// that follow different orders. Empty where nothing is.
std::vector<compare::Suspect> suspects_in_shards(const trace::RunTrace& run, const scenario::Promises& promises,
                                                 std::int64_t step);

/// Whether the epoch of this step has the order of the first one, although the recipe shuffles.
std::vector<compare::Suspect> suspects_in_epochs(const trace::RunTrace& run, const scenario::Promises& promises,
                                                 std::int64_t step);

}  // namespace lockstep::diagnosis
