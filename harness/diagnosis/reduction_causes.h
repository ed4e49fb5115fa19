#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/compare/suspect.h"
#include "harness/diagnosis/scene.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::diagnosis {

/// Causes of reduced gradients that are not the mean of the local ones, the likeliest first; the variant's own promise
/// is ignored. Empty if they are the mean, or if no cause fits.
std::vector<compare::Suspect> suspects_in_reduction(const trace::RunTrace& run, const scenario::Promises& promises,
                                                    std::int64_t step);

/// The factor by which a program's rank multiplied what DDP handed out, if it was one for all gradients.
std::optional<double> own_factor(const trace::RunTrace& run, std::size_t rank, std::int64_t step);

/// A program that divides by the number of ranks what DDP has averaged, or multiplies by it. The other does not.
std::vector<compare::Suspect> suspects_in_own_average(const Scene& scene);

}  // namespace lockstep::diagnosis
