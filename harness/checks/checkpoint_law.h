#pragma once

#include "harness/checks/check.h"

namespace lockstep::checks {

/// The run that saved the checkpoint from which another one resumes. *Lifetime*: borrows both.
struct Saver {
  const trace::RunTrace* run = nullptr;  ///< null: its trace is not there
  const scenario::Promises* promises = nullptr;

  explicit operator bool() const { return run != nullptr && !run->ranks.empty(); }
};

/// The law `checkpoint`: what a run holds after loading is what the other one held when it saved.
CheckResult judge_checkpoint(const trace::RunTrace& run, const scenario::Promises& promises, const Saver& saver);

/// A training that resumes after another update than its checkpoint's.
compare::Divergence begins_elsewhere(const trace::RunTrace& resumed, std::int64_t expected, std::int64_t actual);

}  // namespace lockstep::checks
