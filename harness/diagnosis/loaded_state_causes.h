#pragma once

#include <vector>

#include "harness/diagnosis/restart_causes.h"

namespace lockstep::diagnosis {

/// Causes of a wrong state right after loading a checkpoint. Causes in `channel`, where the difference was seen, come
/// first. Empty if the state is as saved, or if no cause fits.
std::vector<compare::Suspect> suspects_in_loaded_state(const Restart& restart, trace::Channel channel);

}  // namespace lockstep::diagnosis
