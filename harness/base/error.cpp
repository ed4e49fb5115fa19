#include "harness/base/error.h"

#include <utility>

#include "harness/base/text.h"

namespace lockstep {

std::string describe(const Problem& problem) {
  std::string text = printable(without_middle(problem.what));
  const auto add = [&text](const char* label, const std::string& value) {
    if (!value.empty()) text += std::string("\n  ") + label + printable(without_middle(value));
  };
  add("where:    ", problem.where);
  add("expected: ", problem.expected);
  add("actual:   ", problem.actual);
  add("next:     ", problem.next);
  return text;
}

std::string describe(const ProblemList& list) {
  const std::vector<Problem>& problems = list.problems;
  if (problems.size() == 1) return describe(problems.front());
  std::string text = std::to_string(problems.size()) + " errors";
  for (std::size_t i = 0; i < problems.size(); ++i) text += "\n" + std::to_string(i + 1) + ". " + describe(problems[i]);
  return text;
}

Error::Error(Problem problem) : Error(ProblemList{{std::move(problem)}}) {}

Error::Error(ProblemList list) : std::runtime_error(describe(list)), problems_(std::move(list.problems)) {}

void check(bool holds, const char* invariant, const char* file, int line) {
  if (holds) return;
  throw InternalError({.what = "lockstep broke one of its own rules; this is a bug in lockstep",
                       .where = std::string(file) + ":" + std::to_string(line),
                       .expected = invariant});
}

}  // namespace lockstep
