#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Whether a float32 number is one of 16 bits: of bfloat16's 8 significant ones, or of float16's 11.
bool is_short(double value);

/// Own gradients that hold 16-bit numbers on one side, or on one rank, and do not on the other. Empty where both do, or
/// where they are farther apart than such rounding brings them.
std::vector<compare::Suspect> suspects_in_precision(const Scene& scene);

}  // namespace lockstep::diagnosis
