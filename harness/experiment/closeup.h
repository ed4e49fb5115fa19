#pragma once

#include "harness/decision/facts.h"
#include "harness/experiment/scenario_runs.h"

namespace lockstep::experiment {

/// State in which two runs were captured. After rounding, every operator has different inputs.
enum class Looked { kFromTheStart, kBehindRounding, kFromOneState };

/// Element, operator and detour of a difference, from the captures of both sides.
Closeup closeup_of(const Divergence& at, const Side& left, const Side& right, Looked looked);

}  // namespace lockstep::experiment
