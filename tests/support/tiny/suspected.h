#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "harness/diagnosis/causes.h"
#include "harness/diagnosis/scene.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {

/// What a diagnoser makes of the divergence that a check finds; nothing where it finds none.
template <typename SuspectsOf>
std::vector<compare::Suspect> suspects_of(const Bench& bench, SuspectsOf diagnoser, std::size_t check = 0) {
  const checks::CheckResult result = bench.check(check);
  if (!result.divergence) return {};
  const diagnosis::Question question = bench.question(check);
  return diagnoser(diagnosis::Scene(question, *result.divergence));
}

/// Ids of the causes, the likeliest first.
inline std::vector<std::string> causes_of(const std::vector<compare::Suspect>& suspects) {
  std::vector<std::string> causes;
  for (const compare::Suspect& suspect : suspects) {
    causes.push_back(suspect.cause);
    EXPECT_FALSE(suspect.evidence.empty()) << suspect.cause;
    EXPECT_NE(diagnosis::find_cause(suspect.cause), nullptr) << suspect.cause;
  }
  return causes;
}

/// The likeliest one; "" where there is none.
inline std::string first_cause(const std::vector<compare::Suspect>& suspects) {
  return suspects.empty() ? "" : causes_of(suspects)[0];
}

}  // namespace lockstep::test
