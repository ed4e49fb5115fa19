#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/base/problems.h"
#include "harness/scenario/scenario.h"

namespace lockstep::scenario {

/// Practices of a completed list, with checks and variants resolved; `variants`: the names of all, sound or not. Errors
/// are added to `problems`.
std::vector<Practice> practices_from(const Json& practices, const Scenario& scenario,
                                     const std::vector<std::string>& variants, Problems& problems);

}  // namespace lockstep::scenario
