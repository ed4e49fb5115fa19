#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::app {

/// State of the version control around a scenario, as git tells.
struct WorkTree {
  std::string by = "unknown";  ///< "Ada <ada@example.org>", as git would sign a commit
  std::string commit =
      "unknown";  ///< newest one that is on the branch upstream, too, if there is one: others may vanish
  std::vector<std::string>
      changes;  ///< changed files that are not committed, without goldens; the scenario, if it is new
};

/// Asks git. Where there is no git or no repository, everything is unknown and nothing is changed.
WorkTree work_tree_of(const std::filesystem::path& scenario_file, const std::filesystem::path& golden_root);

}  // namespace lockstep::app
