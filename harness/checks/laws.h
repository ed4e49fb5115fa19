#pragma once

#include "harness/checks/check.h"
#include "harness/laws/law.h"

namespace lockstep::checks {

/// Asks one law of one run, and names causes of a breach.
CheckResult judge_law(const laws::Law& law, const trace::RunTrace& run, const scenario::Promises& promises);

}  // namespace lockstep::checks
