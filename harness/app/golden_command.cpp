#include "harness/app/golden_command.h"

#include <algorithm>
#include <set>

#include "harness/app/acceptance.h"
#include "harness/app/commands.h"
#include "harness/app/proposals_chosen.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/golden/store.h"

namespace lockstep::app {
namespace {

struct MigrateOptions {
  std::filesystem::path root = "golden";
};

int migrate(const MigrateOptions& options) {
  const std::vector<std::filesystem::path> files = golden::migrate(options.root);
  for (const std::filesystem::path& file : files) print_line(stdout, "written    " + file.string());
  if (files.empty()) print_line(stdout, "nothing to migrate in " + options.root.string());
  return 0;
}

struct RemoveOptions {
  std::vector<std::string> goldens;  ///< patterns of their names
  std::string key;
  std::filesystem::path golden_root;
  bool in_ci = false;
  bool dry_run = false;
};

int remove(const RemoveOptions& options) {
  if (!options.dry_run) require_somebody_decides(options.in_ci);
  const std::filesystem::path root = root_of_proposals(options.golden_root);
  std::vector<std::filesystem::path> chosen;
  std::set<std::string> keys;
  for (const std::filesystem::path& file : golden::goldens_in(root)) {
    const std::string name = golden::name_of_golden(root, file);
    if (std::none_of(options.goldens.begin(), options.goldens.end(),
                     [&](const std::string& pattern) { return fits(pattern, name); }))
      continue;
    const std::set<std::string> found = golden::keys_in(read_file(file));
    if (found.contains(options.key)) chosen.push_back(file);
    keys.insert(found.begin(), found.end());
  }
  if (chosen.empty())
    throw InputError({.what = "no golden of this name has an entry of this key",
                      .where = root.string() + ": " + join(options.goldens, " "),
                      .expected = keys.empty() ? "a golden: lockstep golden log '*' lists them"
                                               : "one of: " + join({keys.begin(), keys.end()}, ", "),
                      .actual = "--key " + options.key});
  for (const std::filesystem::path& file : chosen) {
    if (!options.dry_run) golden::remove_entry(file, options.key);
    print_line(stdout, (options.dry_run ? "would remove  " : "removed  ") + file.string() + " (" + options.key + ")");
  }
  return 0;
}

}  // namespace

void add_golden(CLI::App& app, Action& action) {
  CLI::App* golden = app.add_subcommand("golden", "Accepted traces");
  golden->require_subcommand(1);
  add_golden_accept(*golden, action);
  add_golden_review(*golden, action);
  add_golden_status(*golden, action);

  CLI::App* removing = golden->add_subcommand("remove", "Remove the entries of one key from goldens");
  const auto removed = std::make_shared<RemoveOptions>();
  removing->add_option("goldens", removed->goldens, "'world-size/w3', or patterns: 'world-size/*'")->required();
  removing->add_option("--key", removed->key, "Key of the entries: golden status names it")
      ->required()
      ->check(not_empty);
  removing->add_option("--golden", removed->golden_root, "Folder of the goldens")
      ->type_name("FOLDER")
      ->check(not_empty);
  removing->add_flag("--in-ci", removed->in_ci, "Remove even if the environment variable CI is set");
  removing->add_flag("--dry-run", removed->dry_run, "Remove nothing; say what would be removed");
  run_when_chosen(*removing, action, removed, remove);

  CLI::App* migrating = golden->add_subcommand("migrate", "Rewrite goldens of the format of older versions");
  const auto old = std::make_shared<MigrateOptions>();
  migrating->add_option("folder", old->root, "Folder of the goldens. Default: golden")->check(not_empty);
  run_when_chosen(*migrating, action, old, migrate);
}

}  // namespace lockstep::app
