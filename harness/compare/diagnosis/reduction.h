#pragma once

#include <cstdint>
#include <vector>

#include "harness/compare/causes.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::compare {

/// Why the reduced gradients of a step are not the mean of the ranks' own ones, whatever the variant asks for: most
/// likely first. Empty where they are, and where no cause fits.
std::vector<Suspect> suspects_in_reduction(const trace::RunTrace& run, const scenario::Variant& variant,
                                           std::int64_t step);

}  // namespace lockstep::compare
