#pragma once

#include <set>
#include <string>
#include <vector>

#include "harness/base/problems.h"
#include "harness/scenario/scenario.h"

namespace lockstep::scenario {

/// Checks that variants save the checkpoints that others load, and that recorded channels exist. Finds all errors.
/// `names`: of all variants, also those that the scenario lacks because of errors; `sound`: of those without an error.
void validate_sources(const Scenario& scenario, const std::vector<std::string>& names, std::set<std::string> sound,
                      Problems& problems);

}  // namespace lockstep::scenario
