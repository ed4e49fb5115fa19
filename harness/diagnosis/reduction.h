#pragma once

#include <cstdint>
#include <vector>

#include "harness/compare/suspect.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::diagnosis {

/// Why the reduced gradients of a step are not the mean of the ranks' own ones, whatever the variant asks for: most
/// likely first. Empty where they are, and where no cause fits.
std::vector<compare::Suspect> suspects_in_reduction(const trace::RunTrace& run, const scenario::Promises& promises,
                                                    std::int64_t step);

}  // namespace lockstep::diagnosis
