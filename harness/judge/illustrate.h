#pragma once

#include <filesystem>
#include <vector>

#include "harness/judge/evidence.h"
#include "harness/judge/verdict.h"
#include "harness/plan/plan.h"

namespace lockstep::judge {

/// Adds pictures of all scenarios to a verdict: curves of their runs, and maps of checks.
///
/// A check has a map if it compares records and does not hold, is expected to fail, allows rounding or resumes. It is
/// compared once more for that. Call this only for a report that draws. `golden_root`: as for `judge`.
void illustrate(Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence,
                const std::filesystem::path& golden_root);

}  // namespace lockstep::judge
