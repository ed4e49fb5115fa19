#include <cstdio>

#include <unistd.h>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/report/text.h"
#include "harness/report/unwatched.h"

namespace lockstep::app {

int judge(const JudgeOptions& options) {
  require_writable(options.run.json);
  plan::Plan plan = plan::make_plan(load(options.run));
  if (!is_folder(options.traces))
    throw InputError({.what = "the folder of traces is missing",
                      .where = "--traces " + options.traces.string(),
                      .expected = "a folder that holds SCENARIO/VARIANT/REPEAT, as --prepare and --out make it"});
  const std::vector<report::Evidence> evidence =
      report::read_unwatched(plan, std::filesystem::absolute(options.traces));
  report::Verdict verdict = report::judge(plan, evidence, options.run.golden_root, today());
  if (options.controls) {
    RunsFolder runs("");
    investigate(verdict, plan, evidence, options.run, runs.path());
    if (verdict.status() != report::Status::kAgree) runs.keep();
  } else {
    name_rows(verdict);
  }
  if (options.run.json != "-") print_page(stdout, to_text(verdict, plan, may_color(STDOUT_FILENO)));
  if (!options.run.json.empty()) write_json(options.run.json, to_json(verdict, plan));
  return exit_code(verdict.status());
}

}  // namespace lockstep::app
