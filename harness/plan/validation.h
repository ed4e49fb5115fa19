#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/base/problems.h"
#include "harness/scenario/scenario.h"

namespace lockstep::plan {

/// A file or folder that a scenario names, from the folder that the scenario stands in.
std::filesystem::path file_of(const scenario::Scenario& scenario, const std::string& path);

/// Adds what is wrong between scenarios, and between them and the disk: two of one name, files that are not there.
/// Scenarios may have errors of their own (`scenario::read_scenario`).
void validate(const std::vector<scenario::Scenario>& scenarios, Problems& problems);

}  // namespace lockstep::plan
