#pragma once

#include <functional>
#include <vector>

#include "harness/report/judge.h"

namespace lockstep::experiment {

/// Runs a plan and reads its traces. `folder`: name of the folder for them.
using Execute = std::function<std::vector<report::Evidence>(plan::Plan& plan, const std::string& folder)>;

/// Runs controls for each difference or open check of a verdict, and adds the results to the verdict.
///
/// 1. Replays without changes: a side that differs from its first run is non-reproducible, or was disturbed once.
/// 2. If rounding is possible, runs in float64: rounding shrinks, a mistake stays. A check up to rounding that is open,
/// or exceeds its bound by no more than one sample's effect, agrees if it agrees in float64.
///
/// A verdict without such findings costs nothing. `evidence`: of the plan's runs. *Units*: `today` as "2027-01-31".
void investigate(report::Verdict& verdict, const plan::Plan& plan, const std::vector<report::Evidence>& evidence,
                 const std::string& today, const Execute& execute);

}  // namespace lockstep::experiment
