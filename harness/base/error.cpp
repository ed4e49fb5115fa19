#include "harness/base/error.h"

#include <utility>

#include "harness/base/text.h"

namespace lockstep {

std::string describe(const Problem& problem) {
  std::string text = problem.what;
  const auto add = [&text](const char* label, const std::string& value) {
    if (!value.empty()) text += std::string("\n  ") + label + value;
  };
  add("where:    ", problem.where);
  add("expected: ", problem.expected);
  add("actual:   ", problem.actual);
  add("next:     ", problem.next);
  return printable(text);
}

Error::Error(Problem problem) : std::runtime_error(describe(problem)), problem_(std::move(problem)) {}

void check(bool holds, const char* invariant, const char* file, int line) {
  if (holds) return;
  throw InternalError({.what = "lockstep broke one of its own rules; this is a bug in lockstep",
                       .where = std::string(file) + ":" + std::to_string(line),
                       .expected = invariant});
}

}  // namespace lockstep
