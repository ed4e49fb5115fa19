#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/error.h"

namespace lockstep {

/// Errors of the user's input that do not follow from each other: they are found one after the other, and reported
/// together. Several files may share an error, such as a wrong --set; it is reported once.
class Problems {
 public:
  /// Errors that are reported; whoever corrects so many runs again anyway.
  static constexpr std::size_t kMost = 100;

  void add(Problem problem) {
    if (problem.what == kMore) has_more_ = true;
    if (has_more_ || !told_.insert(describe(problem)).second) return;
    if (problems_.size() < kMost) {
      problems_.push_back(std::move(problem));
    } else {
      has_more_ = true;
    }
  }

  /// There are more errors than are reported.
  void note_more() { has_more_ = true; }

  /// Whether there are more errors than are reported: no need to look for others.
  bool is_over() const { return has_more_; }

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
    if (problems_.empty()) return;
    ProblemList list{problems_};
    if (has_more_) list.problems.push_back({.what = kMore, .next = "correct these, and start again"});
    throw InputError(std::move(list));
  }

 private:
  static constexpr const char* kMore = "there are more errors than these";

  std::vector<Problem> problems_;
  std::set<std::string> told_;
  bool has_more_ = false;
};

}  // namespace lockstep
