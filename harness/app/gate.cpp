#include "harness/app/commands.h"

namespace lockstep::app {

int gate(RunOptions options) {
  if (options.scenarios.empty()) options.scenarios = {"scenarios/gate"};
  return run(options);
}

}  // namespace lockstep::app
