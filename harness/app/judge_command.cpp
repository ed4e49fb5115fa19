#include <cstdio>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/judge/unwatched.h"
#include "harness/report/renderer.h"

namespace lockstep::app {
namespace {

struct JudgeOptions {
  RunOptions run;                ///< its `out` is not looked at
  std::filesystem::path traces;  ///< folder with the folders of the runs
  bool controls = false;         ///< starts control runs for what differs
};

int judge(const JudgeOptions& options) {
  make_way(options.run);
  plan::Plan plan = plan::make_plan(load(options.run));
  if (!is_folder(options.traces))
    throw InputError({.what = "the folder of traces is missing",
                      .where = "--traces " + options.traces.string(),
                      .expected = "a folder that holds SCENARIO/VARIANT/REPEAT, as --prepare and --out make it"});
  const std::vector<judge::Evidence> evidence = judge::read_unwatched(plan, std::filesystem::absolute(options.traces));
  judge::Verdict verdict = judge::judge(plan, evidence, options.run.golden_root, today());
  if (options.controls) {
    RunsFolder runs("");
    investigate(verdict, plan, evidence, options.run, runs.path());
    if (verdict.status() != judge::Status::kAgree) runs.keep();
    verdict.temporary_folder = runs.path();
  } else {
    name_rows(verdict);
  }
  illustrate(verdict, plan, evidence, options.run);
  write_reports(options.run, verdict, plan);
  return exit_code(verdict.status());
}

}  // namespace

void add_judge(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("judge", "Judge runs that were started elsewhere; starts nothing");
  const auto options = std::make_shared<JudgeOptions>();
  command->add_option("scenarios", options->run.scenarios, "Scenario files, or folders of them")->required();
  command->add_option("--traces", options->traces, "Folder that holds the runs, as --prepare and --out make it")
      ->type_name("FOLDER")
      ->required()
      ->check(not_empty);
  add_judging_options(*command, options->run);
  add_report_options(*command, options->run);
  CLI::Option* controls =
      command->add_flag("--controls", options->controls, "Start control runs here for what differs, as run does");
  for (CLI::Option* starting : add_starting_options(*command, options->run)) starting->needs(controls);
  run_when_chosen(*command, action, options, judge);
}

}  // namespace lockstep::app
