#pragma once

#include "harness/experiment/runs.h"

namespace lockstep::experiment {

/// State in which two runs were captured. After rounding, every operator has different inputs.
enum class Looked { kFromTheStart, kBehindRounding, kFromOneState };

/// Fills in element, operator and detour of a difference, from the captures of both sides.
void locate(compare::Divergence& at, const Side& left, const Side& right, Looked looked);

}  // namespace lockstep::experiment
