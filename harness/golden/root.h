#pragma once

#include <filesystem>
#include <string>

namespace lockstep::golden {

/// Folder of a project's goldens, and why it was chosen.
struct Root {
  std::filesystem::path folder;  ///< relative where it is below the current directory
  std::string reason;            ///< "beside lockstep.json"
};

/// File that marks the root of a project. It holds `{}`, because there are no settings yet.
inline constexpr const char* kProjectFile = "lockstep.json";

/// Finds the goldens of a scenario. The first of these that exists decides:
/// - `given`, if it is not empty;
/// - `golden/` beside the nearest lockstep.json, in the scenario's folder or above it;
/// - `golden/` beside the nearest folder `scenarios/` that holds the scenario;
/// - `golden/` beside the scenario.
/// Symbolic links on the way to the scenario are followed first: a link has the goldens of what it leads to.
/// *Throws*: InputError if lockstep.json is not an empty object.
Root root_of(const std::filesystem::path& scenario_file, const std::filesystem::path& given);

}  // namespace lockstep::golden
