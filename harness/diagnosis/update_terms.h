#pragma once

#include <cstdint>
#include <vector>

#include "harness/compare/suspect.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::diagnosis {

/// Why a step of a run changes momentum or weights otherwise than its recipe, its rate and its gradients say: one
/// coefficient of the update is off. Empty where all hold, several are off, and where no cause fits.
std::vector<compare::Suspect> suspects_in_update_terms(const trace::RunTrace& run, const scenario::Promises& promises,
                                                       std::int64_t step);

}  // namespace lockstep::diagnosis
