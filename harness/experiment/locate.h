#pragma once

#include "harness/experiment/runs.h"

namespace lockstep::experiment {

/// Where two runs were looked at. Behind rounding, every operator has other inputs.
enum class Looked { kFromTheStart, kBehindRounding, kFromOneState };

/// Element, operator and detour of a difference, from what was captured of both sides.
void locate(compare::Divergence& at, const Side& left, const Side& right, Looked looked);

}  // namespace lockstep::experiment
