#pragma once

#include <cstdint>
#include <vector>

#include "harness/compare/suspect.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::diagnosis {

/// Why the gradients that the ranks of one run update with are not clipped to the norm that the recipe asks for. Empty
/// where they are, where nothing is to be clipped, and where no cause fits.
std::vector<compare::Suspect> suspects_in_clipping(const trace::RunTrace& run, const scenario::Promises& promises,
                                                   std::int64_t step);

}  // namespace lockstep::diagnosis
