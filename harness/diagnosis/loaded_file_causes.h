#pragma once

#include <optional>
#include <vector>

#include "harness/diagnosis/restart_causes.h"

namespace lockstep::diagnosis {

/// Causes of a wrong state after loading that lie in the file which was read: it mixes updates, or lacks weights. Empty
/// unless its tensors are known.
std::vector<compare::Suspect> suspects_in_loaded_file(const Restart& restart, trace::Channel channel);

/// Whether a checkpoint that was read holds a tensor of these bits; nothing where its tensors are not known.
std::optional<bool> checkpoint_holds(const Restart& restart, const trace::Record& record);

}  // namespace lockstep::diagnosis
