#include <chrono>
#include <optional>

#include "harness/app/acceptance.h"
#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/error.h"

namespace lockstep::app {

int run(const RunOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  make_way(options);
  plan::Plan plan = plan::make_plan(load(options));
  RunsFolder runs(options.out, options.resume);
  std::optional<Campaign> campaign;
  if (!options.out.empty())
    campaign = options.resume ? Campaign::resume(plan, runs.path()) : Campaign::begin(plan, runs.path());
  const std::vector<judge::Evidence> evidence = execute(plan, options, runs.path(), campaign ? &*campaign : nullptr);
  judge::Verdict verdict = judge::judge(plan, evidence, options.golden_root, today());
  investigate(verdict, plan, evidence, options, runs.path());
  verdict.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const judge::Status status = verdict.status();

  if (status != judge::Status::kAgree) runs.keep();
  if (options.out.empty()) verdict.temporary_folder = runs.path();
  illustrate(verdict, plan, evidence, options);
  write_reports(options, verdict, plan);
  propose(options, plan, evidence, verdict);
  return exit_code(status);
}

/// Commands without a verdict have one report.
void require_json_alone(const RunOptions& options) {
  if (options.reports.size() == (options.json().empty() ? 0 : 1)) return;
  throw InputError({.what = "--mutations and --prepare write no verdict, so only --json is there for them",
                    .where = "--report",
                    .next = "write --json FILE"});
}

void add_run(CLI::App& app, Action& action) {
  struct Options : RunOptions {
    bool mutations = false;
    std::string part = "1/1";
    std::filesystem::path prepared;
    std::int64_t stop_after = 0;
  };
  CLI::App* command = app.add_subcommand("run", "Run scenarios and judge them");
  const auto options = std::make_shared<Options>();
  command->add_option("scenarios", options->scenarios, "Scenario files, or folders of them")->required();
  add_run_options(*command, *options);
  add_report_options(*command, *options);
  add_propose_option(*command, *options);
  add_verbosity_options(*command, *options);
  CLI::Option* mutated =
      command->add_flag("--mutations", options->mutations,
                        "Try the mutations of the practices, too: each must turn a check of its practice red");
  command->add_option("--part", options->part, "Only the K-th of N equal parts of the mutations: K/N")->needs(mutated);
  add_stop_after(*command, options->stop_after);
  command->add_flag("--resume", options->resume, "Resume the runs that an earlier lockstep left in --out")
      ->needs("--out")
      ->excludes(mutated);
  command
      ->add_option("--prepare", options->prepared,
                   "Start nothing; write into this new folder what another scheduler needs to start the runs")
      ->type_name("FOLDER")
      ->check(not_empty)
      ->excludes("--out")
      ->excludes("--launcher")
      ->excludes(mutated);
  command->callback([=, &action] {
    action = [options] {
      if (options->stop_after > 0)
        options->overrides.push_back("program.stop_after=" + std::to_string(options->stop_after));
      if (options->mutations || !options->prepared.empty()) require_json_alone(*options);
      if (options->mutations) return mutations(*options, options->part);
      if (options->prepared.empty()) return run(*options);
      options->out = options->prepared;
      return prepare(*options);
    };
  });
}

}  // namespace lockstep::app
