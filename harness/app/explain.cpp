#include <cstdio>

#include "harness/app/commands.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/diagnosis/causes.h"
#include "harness/report/causes.h"

namespace lockstep::app {

int explain(const ExplainOptions& options) {
  if (options.markdown) {
    std::fputs(report::markdown_of_causes().c_str(), stdout);
    return 0;
  }
  if (options.cause.empty()) {
    std::fputs(report::list_of_causes().c_str(), stdout);
    return 0;
  }
  const diagnosis::Cause* cause = diagnosis::find_cause(options.cause);
  if (cause == nullptr) {
    throw InputError({.what = "unknown cause '" + options.cause + "'",
                      .expected = "one of the ids that `lockstep explain` lists",
                      .next = suggest(options.cause, diagnosis::cause_ids())});
  }
  std::fputs(report::to_text(*cause).c_str(), stdout);
  return 0;
}

}  // namespace lockstep::app
