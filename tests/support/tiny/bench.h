#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/checks/check.h"

#include "tests/support/support.h"
#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::test {

/// A scenario of tiny trainings, loaded as a file would be: `changes` are merged into the base one.
///
/// The base: variants "a" and "b", alike; 2 ranks, 24 samples in batches of 12, 4 steps, SGD with momentum.
scenario::Scenario tiny_scenario(const Json& changes, const Scratch& scratch);

/// One check on the clean traces of a tiny scenario, which a test then spoils.
class Bench {
 public:
  explicit Bench(const Json& changes);

  /// Runs a variant anew, with faults, in all its repeats.
  void rerun(const std::string& variant, const Faults& faults);

  trace::RunTrace& run(const std::string& variant, std::size_t repeat = 0) { return runs.at(variant).at(repeat); }

  checks::CheckResult check(std::size_t index = 0) const;

  /// What diagnosis is asked about a divergence that a check of all runs finds. *Lifetime*: of the bench.
  diagnosis::Question question(std::size_t check = 0) const;

  Scratch scratch;
  scenario::Scenario scenario;
  std::map<std::string, std::vector<trace::RunTrace>> runs;
  std::map<std::string, std::string> train_digests;
};

using Status = checks::CheckResult::Status;

/// Whether a check found its first divergence exactly here.
testing::AssertionResult diverges_at(const checks::CheckResult& result, std::int64_t step, trace::Channel channel,
                                     const std::string& tensor, std::int64_t rank);

/// Whether a check agreed, and on something.
testing::AssertionResult agrees(const checks::CheckResult& result);

/// Whether it could not be decided, with a reason that holds `why`.
testing::AssertionResult is_inconclusive(const checks::CheckResult& result, const std::string& why = "");

}  // namespace lockstep::test
