#pragma once

#include <cstdint>
#include <functional>

#include "harness/laws/law.h"
#include "harness/trace/trace.h"

namespace lockstep::laws {

/// Calls `visit` with rank 0 after each recorded step, until it returns false. So with each other rank that holds
/// something else than rank 0 before or after the step.
///
/// A rank that holds the same keeps a law as rank 0 does, and counts as much in the outcome. Compared are gradients
/// after the reduction, states, weights, averages and the ledger, bit for bit. `visit` must look at nothing else.
void for_each_own_state(const trace::RunTrace& run, Outcome& outcome,
                        const std::function<bool(std::int64_t step, std::int64_t rank)>& visit);

}  // namespace lockstep::laws
