#include "harness/golden/root.h"

#include <system_error>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep::golden {
namespace {

namespace fs = std::filesystem;

void require_project_file(const fs::path& file) {
  const Json project = parse_json(read_file(file), file.string());
  if (project.is_object() && project.empty()) return;
  throw InputError({.what = "the project file has unknown content",
                    .where = file.string(),
                    .expected = "{}",
                    .actual = project.is_object() ? "the key '" + project.begin().key() + "'" : "no object"});
}

/// Nearest of the folder and those above it for which `wanted` holds; empty: none.
template <typename Wanted>
fs::path nearest_above(fs::path folder, const Wanted& wanted) {
  while (!wanted(folder)) {
    if (folder == folder.parent_path()) return "";
    folder = folder.parent_path();
  }
  return folder;
}

/// Folder that really holds a scenario: behind a symbolic link stand other neighbours than beside it.
fs::path real_folder_of(const fs::path& scenario_file) {
  std::error_code unknown;
  const fs::path real = fs::weakly_canonical(scenario_file, unknown);
  return (unknown ? fs::absolute(scenario_file).lexically_normal() : real).parent_path();
}

/// As a person in the current directory writes it.
fs::path seen_from_here(const fs::path& absolute) {
  std::error_code gone;
  const fs::path here = fs::current_path(gone);
  const fs::path relative = gone ? fs::path() : absolute.lexically_relative(here);
  return relative.empty() || *relative.begin() == ".." ? absolute : relative;
}

}  // namespace

Root root_of(const fs::path& scenario_file, const fs::path& given) {
  if (!given.empty()) return {.folder = given, .reason = "named by --golden"};
  const fs::path folder = real_folder_of(scenario_file);
  std::error_code ignored;
  const fs::path project =
      nearest_above(folder, [&](const fs::path& at) { return fs::exists(at / kProjectFile, ignored); });
  if (!project.empty()) {
    require_project_file(project / kProjectFile);
    return {.folder = seen_from_here(project / "golden"), .reason = "beside lockstep.json"};
  }
  const fs::path scenarios = nearest_above(folder, [](const fs::path& at) { return at.filename() == "scenarios"; });
  if (!scenarios.empty())
    return {.folder = seen_from_here(scenarios.parent_path() / "golden"), .reason = "beside the folder scenarios/"};
  return {.folder = seen_from_here(folder / "golden"), .reason = "beside the scenario"};
}

}  // namespace lockstep::golden
