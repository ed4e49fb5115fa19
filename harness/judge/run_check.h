#pragma once

#include "harness/checks/check.h"

namespace lockstep::judge {

/// Judges a check by the function of its kind.
checks::CheckResult run_check(const checks::CheckInput& input);

}  // namespace lockstep::judge
