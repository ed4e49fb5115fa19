#pragma once

#include <vector>

#include "harness/diagnosis/restart.h"

namespace lockstep::diagnosis {

/// Causes of a wrong state after loading that lie in the file which was read: it mixes updates, or lacks weights. Empty
/// unless its tensors are known.
std::vector<compare::Suspect> suspects_in_loaded_file(const Restart& restart, trace::Channel channel);

}  // namespace lockstep::diagnosis
