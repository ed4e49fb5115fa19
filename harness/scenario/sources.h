#pragma once

#include "harness/base/problems.h"
#include "harness/scenario/scenario.h"

namespace lockstep::scenario {

/// Checks that variants save the checkpoints that others load, and that recorded channels exist. Finds all errors.
void validate_sources(const Scenario& scenario, Problems& problems);

}  // namespace lockstep::scenario
