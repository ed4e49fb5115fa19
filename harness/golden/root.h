#pragma once

#include <filesystem>
#include <string>

namespace lockstep::golden {

/// Folder of a project's accepted traces, and why it is that one.
struct Root {
  std::filesystem::path folder;  ///< relative where it is below the current directory
  std::string reason;            ///< "beside lockstep.json"
};

/// The file that marks the root of a project. It holds `{}`: so far there is nothing to say in it.
inline constexpr const char* kProjectFile = "lockstep.json";

/// Where the goldens of a scenario stand: in `golden/` beside the nearest lockstep.json in or above the scenario's
/// folder, else beside the nearest folder `scenarios/` that it is in, else beside the scenario. `given`, where it is
/// not empty, goes before all of these. *Throws*: InputError for a lockstep.json that is no empty object.
Root root_of(const std::filesystem::path& scenario_file, const std::filesystem::path& given);

}  // namespace lockstep::golden
