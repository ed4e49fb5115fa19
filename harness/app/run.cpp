#include <chrono>
#include <cstdio>
#include <optional>

#include <unistd.h>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/report/text.h"

namespace lockstep::app {

int run(const RunOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  require_writable(options.json);
  plan::Plan plan = plan::make_plan(load(options));
  RunsFolder runs(options.out, options.resume);
  std::optional<Campaign> campaign;
  if (!options.out.empty())
    campaign = options.resume ? Campaign::resume(plan, runs.path()) : Campaign::begin(plan, runs.path());
  const std::vector<report::Evidence> evidence = execute(plan, options, runs.path(), campaign ? &*campaign : nullptr);
  report::Verdict verdict = report::judge(plan, evidence, options.golden_root, today());
  investigate(verdict, plan, evidence, options, runs.path());
  verdict.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const report::Status status = verdict.status();

  if (options.json != "-") print_page(stdout, to_text(verdict, plan, may_color(STDOUT_FILENO)));
  if (status != report::Status::kAgree) runs.keep();
  if (!options.json.empty()) write_json(options.json, to_json(verdict, plan));
  return exit_code(status);
}

}  // namespace lockstep::app
