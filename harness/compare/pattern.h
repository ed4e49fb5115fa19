#pragma once

#include <string>
#include <vector>

#include "harness/compare/difference.h"

namespace lockstep::compare {

/// Regularities of a divergence: the ranks, tensors, buckets and steps of its channel that differ, and a factor that
/// the settings explain. After rounding, which is everywhere, only the factor is a hint. `micro_batches`: per update.
/// The divergence must be one of these two runs.
std::vector<Pattern> patterns_of(const trace::RunTrace& left, const trace::RunTrace& right,
                                 const Divergence& divergence, std::int64_t micro_batches);

/// Whether two runs of one shape already differ, in a channel that can round, before a channel of a step. `begin`:
/// first step to look at.
bool part_before(const trace::RunTrace& left, const trace::RunTrace& right, std::int64_t step, trace::Channel channel,
                 std::int64_t begin = trace::kInitialStep);

}  // namespace lockstep::compare
