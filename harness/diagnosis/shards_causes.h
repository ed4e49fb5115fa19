#pragma once

#include <cstdint>
#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Causes of wrong shards in the epoch of a step: no distributed sampler, or ranks that shuffle in different orders.
/// Empty if the shards are right.
std::vector<compare::Suspect> suspects_in_shards(const trace::RunTrace& run, const scenario::Promises& promises,
                                                 std::int64_t step);

/// Causes of an epoch that repeats the first one's order although the recipe shuffles.
std::vector<compare::Suspect> suspects_in_epochs(const trace::RunTrace& run, const scenario::Promises& promises,
                                                 std::int64_t step);

}  // namespace lockstep::diagnosis
