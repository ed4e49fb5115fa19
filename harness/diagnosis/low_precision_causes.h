#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Whether a float32 number fits in 16 bits: in bfloat16's 8 significant bits, or float16's 11.
bool is_short(double value);

/// Local gradients that hold 16-bit numbers on one side or one rank only. Empty if both do, or if the difference is
/// larger than rounding to 16 bits.
std::vector<compare::Suspect> suspects_in_precision(const Scene& scene);

}  // namespace lockstep::diagnosis
