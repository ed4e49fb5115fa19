#pragma once

#include <optional>
#include <string>

#include "harness/checks/check.h"
#include "harness/trace/trace.h"

namespace lockstep::golden {

/// The golden that a check compares a variant with; nothing if there is none.
/// *Throws*: DamagedFile if it cannot be parsed.
std::optional<trace::RunTrace> golden_of(const checks::CheckInput& input, const std::string& variant);

}  // namespace lockstep::golden
