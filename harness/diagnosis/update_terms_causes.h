#pragma once

#include <cstdint>
#include <vector>

#include "harness/compare/suspect.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::diagnosis {

/// Causes of an update with one wrong coefficient, judged by recipe, learning rate and gradients. Empty if all
/// coefficients hold, if several are wrong, or if no cause fits.
std::vector<compare::Suspect> suspects_in_update_terms(const trace::RunTrace& run, const scenario::Promises& promises,
                                                       std::int64_t step);

}  // namespace lockstep::diagnosis
