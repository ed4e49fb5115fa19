#pragma once

#include <functional>
#include <vector>

#include "harness/report/judge.h"

namespace lockstep::experiment {

/// Runs a plan and reads what it left behind. `folder`: name of a folder for its traces.
using Execute = std::function<std::vector<report::Evidence>(const plan::Plan& plan, const std::string& folder)>;

/// Tries again what a verdict calls different, or leaves open, and writes what that shows into it.
///
/// First as it was: a side that does not come out again is nondeterministic, or was disturbed once. Then, where the
/// difference may be rounding, in float64: it shrinks, or it is a mistake. A check up to rounding that could not be
/// decided, or that exceeds its bound by no more than one sample can do, agrees when it does in float64, because
/// trainings that agree there compute the same. A verdict without such findings costs nothing.
/// `evidence`: of the plan's runs. *Units*: `today` as "2027-01-31".
void investigate(report::Verdict& verdict, const plan::Plan& plan, const std::vector<report::Evidence>& evidence,
                 const std::string& today, const Execute& execute);

}  // namespace lockstep::experiment
