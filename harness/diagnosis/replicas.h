#pragma once

#include <cstdint>
#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Whether ranks take an update at all: an optimizer that changes nothing, or one rank that leaves out what the others
/// do. Empty where all weights move, or may rest.
std::vector<compare::Suspect> suspects_in_moving(const trace::RunTrace& run, std::int64_t step);

/// Averages of the weights that differ between ranks whose weights agree, or do not move with them.
std::vector<compare::Suspect> suspects_in_averages(const trace::RunTrace& run, const scenario::Promises& promises,
                                                   std::int64_t step);

/// Buffers that nobody broadcasts: of ranks whose weights agree, or with the rest of what a rank had before.
std::vector<compare::Suspect> suspects_in_buffers(const Scene& scene);

}  // namespace lockstep::diagnosis
