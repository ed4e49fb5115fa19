#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "harness/compare/diagnosis/scene.h"

#include "tests/compare/bench.h"

namespace lockstep::test {

/// What a diagnoser makes of the divergence that a check finds; nothing where it finds none.
template <typename SuspectsOf>
std::vector<compare::Suspect> suspects_of(const Bench& bench, SuspectsOf diagnoser, std::size_t check = 0) {
  const compare::CheckResult result = bench.check(check);
  if (!result.divergence) return {};
  std::map<std::string, std::vector<const trace::RunTrace*>> traces;
  for (const auto& [variant, repeats] : bench.runs) {
    for (const trace::RunTrace& run : repeats) traces[variant].push_back(&run);
  }
  const compare::CheckInput input{.scenario = bench.scenario,
                                  .spec = bench.scenario.checks.at(check),
                                  .traces = traces,
                                  .train_digests = bench.train_digests,
                                  .golden_root = bench.scratch.path() / "golden"};
  return diagnoser(compare::Scene(input, *result.divergence));
}

/// Ids of the causes, the likeliest first.
inline std::vector<std::string> causes_of(const std::vector<compare::Suspect>& suspects) {
  std::vector<std::string> causes;
  for (const compare::Suspect& suspect : suspects) {
    causes.push_back(suspect.cause);
    EXPECT_FALSE(suspect.evidence.empty()) << suspect.cause;
    EXPECT_NE(compare::find_cause(suspect.cause), nullptr) << suspect.cause;
  }
  return causes;
}

/// The likeliest one; "" where there is none.
inline std::string first_cause(const std::vector<compare::Suspect>& suspects) {
  return suspects.empty() ? "" : causes_of(suspects)[0];
}

}  // namespace lockstep::test
