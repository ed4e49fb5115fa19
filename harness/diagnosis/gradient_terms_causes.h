#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Gradients with an extra term: the previous update's gradients, or a multiple of the weights. Empty if no such term
/// fits.
std::vector<compare::Suspect> suspects_in_gradient_terms(const Scene& scene);

/// Reduced gradients that mix two parameters of the same size, because ranks reduced in different orders. Empty if the
/// reduction law holds, or if no pair of parameters fits.
std::vector<compare::Suspect> suspects_in_collective_order(const trace::RunTrace& run, std::int64_t step);

}  // namespace lockstep::diagnosis
