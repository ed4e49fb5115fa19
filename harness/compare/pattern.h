#pragma once

#include <string>
#include <vector>

#include "harness/compare/difference.h"

namespace lockstep::compare {

/// What is regular about a divergence: ranks, tensors, buckets and steps of its channel that differ, and a factor that
/// the recipe explains. Behind rounding, which is everywhere, only the factor tells anything. `micro_batches`: of an
/// update. *Lifetime*: the divergence is between these runs.
std::vector<Pattern> patterns_of(const trace::RunTrace& left, const trace::RunTrace& right,
                                 const Divergence& divergence, std::int64_t micro_batches);

/// Whether two runs of one shape both hold something that may round, and differs, from a step on and before this
/// channel of another.
bool part_before(const trace::RunTrace& left, const trace::RunTrace& right, std::int64_t step, trace::Channel channel,
                 std::int64_t begin = trace::kInitialStep);

}  // namespace lockstep::compare
