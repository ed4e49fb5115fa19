#include "harness/app/work_tree.h"

#include <algorithm>
#include <optional>

#include "harness/app/shell.h"
#include "harness/base/text.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

/// Lines that git prints in a folder; nothing if it fails.
std::optional<std::vector<std::string>> lines_of_git(const fs::path& folder, const std::string& arguments) {
  const Said said = said_by("git -C " + shell_quoted(folder.string()) + " " + arguments + " 2>/dev/null");
  if (said.status != 0) return std::nullopt;
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < said.text.size();) {
    const std::size_t end = std::min(said.text.find('\n', at), said.text.size());
    lines.push_back(said.text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

std::string line_of_git(const fs::path& folder, const std::string& arguments) {
  const auto lines = lines_of_git(folder, arguments);
  return !lines || lines->empty() ? "" : lines->front();
}

/// The words that leave goldens out, where they are in the repository.
std::string without_goldens(const fs::path& top, const fs::path& golden_root) {
  std::error_code unknown;
  const fs::path relative = fs::relative(fs::absolute(golden_root), top, unknown);
  const bool is_within = !unknown && !relative.empty() && *relative.begin() != fs::path("..");
  return is_within ? " " + shell_quoted(":(exclude)" + relative.string()) : "";
}

/// Files that differ from the last commit.
std::vector<std::string> changes_in(const fs::path& top, const fs::path& scenario_file, const fs::path& golden_root) {
  auto changes = lines_of_git(top, "status --porcelain --untracked-files=no -- ." + without_goldens(top, golden_root));
  const auto own = lines_of_git(scenario_file.parent_path(),
                                "status --porcelain -- " + shell_quoted(scenario_file.filename().string()));
  if (!changes || !own) return {"git status fails in " + top.string()};
  if (changes->empty()) changes = own;                      // a new scenario is not among them
  for (std::string& change : *changes) change.erase(0, 3);  // "?? "
  return *changes;
}

}  // namespace

WorkTree work_tree_of(const fs::path& scenario_file, const fs::path& golden_root) {
  WorkTree tree;
  const fs::path folder = fs::absolute(scenario_file).parent_path();
  const std::string name = line_of_git(folder, "config --get user.name");
  const std::string address = line_of_git(folder, "config --get user.email");
  if (!name.empty() || !address.empty()) tree.by = name + (address.empty() ? "" : " <" + address + ">");
  const std::string head = line_of_git(folder, "rev-parse HEAD");
  if (head.empty()) return tree;
  const std::string shared = line_of_git(folder, "merge-base HEAD '@{upstream}'");
  tree.commit = shared.empty() ? head : shared;
  tree.changes = changes_in(line_of_git(folder, "rev-parse --show-toplevel"), fs::absolute(scenario_file), golden_root);
  return tree;
}

}  // namespace lockstep::app
