#pragma once

#include <filesystem>
#include <vector>

#include "harness/judge/evidence.h"
#include "harness/judge/verdict.h"
#include "harness/plan/plan.h"

namespace lockstep::judge {

/// Gives a verdict a picture of each scenario, with the curves of its runs. Call this only for a report that draws
/// them.
void draw_curves(Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence);

/// Adds maps of checks to the pictures of a verdict.
///
/// A check has a map if it compares records and does not hold, is expected to fail, allows rounding or resumes. It is
/// compared once more for that. Call this only for a report that draws them. `golden_root`: as for `judge`.
void draw_maps(Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence,
               const std::filesystem::path& golden_root);

}  // namespace lockstep::judge
