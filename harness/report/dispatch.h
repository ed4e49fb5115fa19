#pragma once

#include "harness/checks/check.h"

namespace lockstep::report {

/// Judges a check by the function of its kind.
checks::CheckResult run_check(const checks::CheckInput& input);

}  // namespace lockstep::report
