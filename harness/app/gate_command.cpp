#include "harness/app/commands.h"
#include "harness/base/error.h"

namespace lockstep::app {
namespace {

struct GateOptions : RunOptions {
  bool selftest = false;
};

int gate(const GateOptions& given) {
  RunOptions options = given;
  if (options.scenarios.empty()) options.scenarios = {"scenarios/gate"};
  if (!given.selftest) return run(options);
  if (!options.reports.empty())
    throw InputError(
        {.what = "--selftest judges no training, so it writes no report of a verdict", .where = "--report"});
  return selftest(options);
}

}  // namespace

void add_gate(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("gate", "Run and judge the gate's scenarios (default: scenarios/gate)");
  const auto options = std::make_shared<GateOptions>();
  command->add_option("scenarios", options->scenarios, "Scenario files, or folders of them");
  add_run_options(*command, *options);
  add_report_options(*command, *options);
  add_propose_option(*command, *options);
  add_verbosity_options(*command, *options);
  command->add_flag("--selftest", options->selftest,
                    "Run nothing; change what goldens hold, bit by bit, and see that each check turns red");
  run_when_chosen(*command, action, options, gate);
}

}  // namespace lockstep::app
