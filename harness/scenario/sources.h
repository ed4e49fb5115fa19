#pragma once

#include "harness/base/problems.h"
#include "harness/scenario/scenario.h"

namespace lockstep::scenario {

/// What variants take from each other must be there, and what they record must have a name. Finds all errors.
void validate_sources(const Scenario& scenario, Problems& problems);

}  // namespace lockstep::scenario
