#pragma once

#include <cstdint>
#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Missing updates: an optimizer that changes nothing, or one rank that skips an update. Empty if all weights move, or
/// if they need not.
std::vector<compare::Suspect> suspects_in_moving(const trace::RunTrace& run, std::int64_t step);

/// Weight averages that differ between ranks with equal weights, or that do not follow the weights.
std::vector<compare::Suspect> suspects_in_averages(const trace::RunTrace& run, const scenario::Promises& promises,
                                                   std::int64_t step);

/// Buffers that DDP should broadcast but does not. They differ between ranks with equal weights, or keep a part of a
/// rank's older buffers.
std::vector<compare::Suspect> suspects_in_buffers(const Scene& scene);

}  // namespace lockstep::diagnosis
