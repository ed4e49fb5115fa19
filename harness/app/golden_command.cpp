#include "harness/app/golden_command.h"

#include "harness/app/commands.h"
#include "harness/base/console.h"
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

}  // namespace

void add_golden(CLI::App& app, Action& action) {
  CLI::App* golden = app.add_subcommand("golden", "Accepted traces");
  golden->require_subcommand(1);
  add_golden_accept(*golden, action);
  add_golden_review(*golden, action);
  add_golden_status(*golden, action);

  CLI::App* migrating = golden->add_subcommand("migrate", "Rewrite goldens of the format of older versions");
  const auto old = std::make_shared<MigrateOptions>();
  migrating->add_option("folder", old->root, "Folder of the goldens. Default: golden")->check(not_empty);
  run_when_chosen(*migrating, action, old, migrate);
}

}  // namespace lockstep::app
