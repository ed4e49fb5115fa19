#pragma once

#include <cstdint>
#include <functional>

#include "harness/laws/law.h"
#include "harness/trace/trace.h"

namespace lockstep::laws {

/// Calls `visit` with rank 0 after each recorded step, and with each other rank that holds something else than rank 0
/// before or after the step, until it returns false. What is alike keeps a law alike: such a rank counts in the outcome
/// what rank 0 does. Compared are gradients after the reduction, states, weights, averages and the ledger, bit for bit;
/// `visit` must look at nothing else.
void for_each_own_state(const trace::RunTrace& run, Outcome& outcome,
                        const std::function<bool(std::int64_t step, std::int64_t rank)>& visit);

}  // namespace lockstep::laws
