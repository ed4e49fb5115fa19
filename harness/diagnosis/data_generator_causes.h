#pragma once

#include <vector>

#include "harness/diagnosis/restart_causes.h"

namespace lockstep::diagnosis {

/// Samples that a resumed run draws otherwise, from no generator that is recorded: their data set owns one.
std::vector<compare::Suspect> suspects_in_data_generator(const Restart& restart);

}  // namespace lockstep::diagnosis
