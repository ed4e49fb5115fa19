#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/problems.h"
#include "harness/scenario/scenario.h"

namespace lockstep::scenario {

/// Reads a scenario as `load_scenario` does, and adds its errors to `problems`, with those of other files.
///
/// A scenario with errors serves to find more of them. It holds the variants that the schema accepts. It has a check
/// for each one in the file.
Scenario read_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       Problems& problems);

}  // namespace lockstep::scenario
