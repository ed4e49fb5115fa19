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

/// Weights that a program wrote on some ranks only. They part in a step that begins with equal weights and updates with
/// equal gradients, states and rates. Or they are not those that DDP gave to all ranks when it wrapped the model.
std::vector<compare::Suspect> suspects_in_written_weights(const Side& side, std::int64_t step);

/// Buffers that DDP should broadcast but does not. They differ between ranks with equal weights, or keep a part of a
/// rank's older buffers.
std::vector<compare::Suspect> suspects_in_buffers(const Scene& scene);

}  // namespace lockstep::diagnosis
