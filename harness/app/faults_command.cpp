#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/judge/fault_table.h"
#include "harness/report/fault_text.h"

namespace lockstep::app {
namespace {

struct FaultsOptions {
  RunOptions run;
  std::string part = "1/1";
  bool open = false;  ///< none of the faults is expected to be judged rightly yet
  bool markdown = false;
};

int faults(const FaultsOptions& given) {
  FaultsOptions options = given;
  if (options.run.scenarios.empty()) options.run.scenarios = {"scenarios/faults", "scenarios/traps"};
  const plan::Part part = plan::parse_part(options.part);
  plan::Plan plan = plan::make_plan(plan::part_of(load(options.run), part));
  RunsFolder runs(options.run.out);
  const std::vector<judge::Evidence> evidence = execute(plan, options.run, runs.path());
  judge::Verdict verdict = judge::judge(plan, evidence, options.run.golden_root, today());
  investigate(verdict, plan, evidence, options.run, runs.path());
  judge::FaultTable table = judge::fault_table(verdict, plan, evidence);
  table.part = part;
  print_page(stdout, options.markdown ? report::to_markdown(table) : report::to_text(table));
  const bool lost = std::any_of(verdict.runs.begin(), verdict.runs.end(),
                                [](const judge::RunReport& run) { return run.status != judge::Status::kAgree; });
  if (lost) return exit_code(judge::Status::kInconclusive);
  const std::vector<std::string> found = options.open ? judge::rightly_judged(table) : std::vector<std::string>{};
  for (const std::string& fault : found)
    print_page(stdout, "FOUND   " + fault + ": judged as it expects; move it out of the open ones\n");
  const bool right = options.open ? found.empty() : judge::perfect(table);
  if (!right) runs.keep();
  return exit_code(right ? judge::Status::kAgree : judge::Status::kDivergence);
}

}  // namespace

void add_faults(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("faults", "Run planted faults and clean traps, and count the right verdicts");
  const auto options = std::make_shared<FaultsOptions>();
  command->add_option("scenarios", options->run.scenarios,
                      "Scenario files, or folders of them (default: scenarios/faults and scenarios/traps)");
  add_run_options(*command, options->run);
  command->add_option("--part", options->part, "Only the K-th of N equal parts of the checks: K/N");
  command->add_flag("--open", options->open,
                    "Run the faults that lockstep does not find yet; fail if one is judged as it expects");
  command->add_flag("--markdown", options->markdown, "Print the table in the form of docs/faults.md");
  run_when_chosen(*command, action, options, faults);
}

}  // namespace lockstep::app
