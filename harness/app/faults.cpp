#include "harness/report/faults.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"

namespace lockstep::app {

int faults(FaultsOptions options) {
  if (options.run.scenarios.empty()) options.run.scenarios = {"scenarios/faults", "scenarios/traps"};
  const plan::Part part = plan::parse_part(options.part);
  plan::Plan plan = plan::make_plan(plan::part_of(load(options.run), part));
  RunsFolder runs(options.run.out);
  const std::vector<report::Evidence> evidence = execute(plan, options.run, runs.path());
  report::Verdict verdict = report::judge(plan, evidence, options.run.golden_root, today());
  investigate(verdict, plan, evidence, options.run, runs.path());
  report::FaultTable table = report::fault_table(verdict, plan, evidence);
  table.part = part;
  print_page(stdout, options.markdown ? to_markdown(table) : to_text(table));
  const bool lost = std::any_of(verdict.runs.begin(), verdict.runs.end(),
                                [](const report::RunReport& run) { return run.status != report::Status::kAgree; });
  if (lost) return exit_code(report::Status::kInconclusive);
  const std::vector<std::string> found = options.open ? report::rightly_judged(table) : std::vector<std::string>{};
  for (const std::string& fault : found)
    print_page(stdout, "FOUND   " + fault + ": judged as it expects; move it out of the open ones\n");
  const bool right = options.open ? found.empty() : report::perfect(table);
  if (!right) runs.keep();
  return exit_code(right ? report::Status::kAgree : report::Status::kDivergence);
}

}  // namespace lockstep::app
