#include "harness/app/commands.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/diagnosis/causes.h"
#include "harness/report/causes.h"

namespace lockstep::app {

int explain(const ExplainOptions& options) {
  if (options.markdown) {
    print_page(stdout, report::markdown_of_causes());
    return 0;
  }
  if (options.cause.empty()) {
    print_page(stdout, report::list_of_causes());
    return 0;
  }
  const diagnosis::Cause* cause = diagnosis::find_cause(options.cause);
  if (cause == nullptr) {
    throw InputError({.what = "unknown cause '" + options.cause + "'",
                      .expected = "one of the ids that `lockstep explain` lists",
                      .next = suggest(options.cause, diagnosis::cause_ids())});
  }
  print_page(stdout, report::to_text(*cause));
  return 0;
}

}  // namespace lockstep::app
