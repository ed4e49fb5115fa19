#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/diagnosis/causes.h"
#include "harness/report/cause_text.h"

namespace lockstep::app {
namespace {

struct ExplainOptions {
  std::string cause;  ///< empty: list them all
  bool markdown = false;
};

/// Causes whose ids begin as this one; all where none does.
std::vector<std::string> of_its_family(const std::string& id) {
  const std::vector<std::string> all = diagnosis::cause_ids();
  std::vector<std::string> family;
  std::copy_if(all.begin(), all.end(), std::back_inserter(family),
               [&](const std::string& one) { return one.substr(0, one.find('.')) == id.substr(0, id.find('.')); });
  return family.empty() ? all : family;
}

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
                      .next = suggest(options.cause, of_its_family(options.cause))});
  }
  print_page(stdout, report::to_text(*cause));
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("explain", "Explain one cause, or list all causes");
  const auto options = std::make_shared<ExplainOptions>();
  command->add_option("cause", options->cause, "Id of the cause: grad.reduce_sum")
      ->type_name("CAUSE")
      ->check(not_empty);
  command->add_flag("--markdown", options->markdown, "Print all causes in the form of docs/causes.md");
  run_when_chosen(*command, action, options, explain);
}

}  // namespace lockstep::app
