#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Gradients that hold something beside the other side's: the gradients of the update before, or a multiple of the
/// weights. Empty where no such term fits.
std::vector<compare::Suspect> suspects_in_gradient_terms(const Scene& scene);

/// Reduced gradients that hold some rank's own gradient of another parameter of the same size. Empty where the
/// reduction law holds, and where no pair of parameters fits.
std::vector<compare::Suspect> suspects_in_collective_order(const trace::RunTrace& run, std::int64_t step);

}  // namespace lockstep::diagnosis
