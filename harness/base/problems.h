#pragma once

#include <utility>
#include <vector>

#include "harness/base/error.h"

namespace lockstep {

/// Errors of one input that do not follow from each other: they are found one after the other, and told at once.
class Problems {
 public:
  void add(Problem problem) { problems_.push_back(std::move(problem)); }

  /// Runs a stage that throws InputError at its first error; whether it came to its end.
  template <typename Stage>
  bool collect(Stage stage) {
    try {
      stage();
      return true;
    } catch (const InputError& error) {
      problems_.insert(problems_.end(), error.problems().begin(), error.problems().end());
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
};

}  // namespace lockstep
