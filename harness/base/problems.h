#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"

namespace lockstep {

/// Errors of the user's input that do not follow from each other: they are found one after the other, and told at once.
/// Several files may share an error, such as a wrong --set; it is told once.
class Problems {
 public:
  void add(Problem problem) {
    if (told_.insert(describe(problem)).second) problems_.push_back(std::move(problem));
  }

  /// Runs a stage that throws InputError at its first error; whether it came to its end.
  template <typename Stage>
  bool collect(Stage stage) {
    try {
      stage();
      return true;
    } catch (const InputError& error) {
      for (const Problem& problem : error.problems()) add(problem);
      return false;
    }
  }

  const std::vector<Problem>& all() const { return problems_; }

  /// *Throws*: InputError with all of them, where there are any.
  void throw_if_any() const {
    if (!problems_.empty()) throw InputError(ProblemList{problems_});
  }

 private:
  std::vector<Problem> problems_;
  std::set<std::string> told_;
};

}  // namespace lockstep
