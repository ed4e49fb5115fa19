#include "harness/app/options.h"

#include "harness/base/text.h"
#include "harness/launch/other_launchers.h"
#include "harness/report/renderer.h"

namespace lockstep::app {

std::string not_empty(const std::string& text) { return text.empty() ? "is empty" : ""; }

void add_judging_options(CLI::App& command, RunOptions& options) {
  command.add_option("--set", options.overrides, "Override a value of every scenario: train.optimizer.lr=0.2")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option(
          "--golden", options.golden_root,
          "Folder of the accepted traces. Default: golden/ beside the nearest lockstep.json above the scenario, "
          "else beside the folder scenarios/, else beside the scenario")
      ->type_name("FOLDER")
      ->check(not_empty);
}

std::vector<CLI::Option*> add_starting_options(CLI::App& command, RunOptions& options) {
  std::vector<std::string> launchers = {"fork", "exec"};
  for (const launch::OtherLauncher& one : launch::other_launchers()) launchers.emplace_back(one.name);
  return {
      command
          .add_option("--launcher", options.launcher,
                      "Launcher of runs whose scenario names none: " + join(launchers, ", "))
          ->type_name("KIND")
          ->check(CLI::IsMember(launchers)),
      command.add_option("--worker", options.worker, "The lockstep-worker to start. Default: the one beside lockstep")
          ->type_name("FILE")
          ->check(not_empty),
      command.add_option("--jobs", options.jobs, "Ranks that run at once. Default: four for each core")
          ->type_name("N")
          ->check(CLI::Range(1, 100000))};
}

void add_run_options(CLI::App& command, RunOptions& options) {
  add_judging_options(command, options);
  command
      .add_option("--out", options.out,
                  "Folder for traces; must be empty. Default: a temporary one, kept unless all agree")
      ->type_name("FOLDER")
      ->check(not_empty);
  add_starting_options(command, options);
}

void add_json_option(CLI::App& command, std::filesystem::path& json) {
  command.add_option("--json", json, "Write the machine-readable result; '-' is stdout")
      ->type_name("FILE")
      ->check(not_empty);
}

void add_report_options(CLI::App& command, RunOptions& options) {
  for (const report::Format& format : report::formats())
    command.add_option(format.option, options.reports[format.option], format.help)->type_name("FILE")->check(not_empty);
}

}  // namespace lockstep::app
