#pragma once

#include <string>
#include <vector>

#include "harness/base/problems.h"
#include "harness/scenario/scenario.h"

namespace lockstep::scenario {

/// Reads "checks", completes them and resolves names and patterns against `variants`, the names of all variants of the
/// scenario. Adds all errors to `problems`; each names its check. What needs to know a variant is asked of those that
/// the scenario holds.
std::vector<CheckSpec> checks_from(const Json& checks, const Scenario& scenario,
                                   const std::vector<std::string>& variants, Problems& problems);

}  // namespace lockstep::scenario
