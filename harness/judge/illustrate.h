#pragma once

#include <vector>

#include "harness/judge/evidence.h"
#include "harness/judge/verdict.h"
#include "harness/plan/plan.h"

namespace lockstep::judge {

/// Adds pictures of all scenarios to a verdict: curves of their runs, and maps of checks.
///
/// A check has a map if it compares records and does not hold, is expected to fail, allows rounding or resumes. It is
/// compared once more for that. Call this only for a report that draws.
void illustrate(Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence);

}  // namespace lockstep::judge
