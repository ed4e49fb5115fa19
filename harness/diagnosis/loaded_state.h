#pragma once

#include <vector>

#include "harness/diagnosis/restart.h"

namespace lockstep::diagnosis {

/// What is wrong with a training's state right after it was loaded; `channel` is where it was seen first, and comes
/// first. Empty where it is as it was saved, or where what is wrong has no name.
std::vector<compare::Suspect> suspects_in_loaded_state(const Restart& restart, trace::Channel channel);

}  // namespace lockstep::diagnosis
