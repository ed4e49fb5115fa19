#pragma once

#include <string>
#include <vector>

#include "harness/compare/diagnosis/scene.h"

#include "tests/compare/bench.h"

namespace lockstep::test {

/// Ids of the causes that a diagnoser names for a divergence of the bench's runs, the likeliest first.
inline std::vector<std::string> causes_named(const Bench& bench, const compare::Divergence& at,
                                             std::vector<compare::Suspect> (*suspects_of)(const compare::Scene&)) {
  std::map<std::string, std::vector<const trace::RunTrace*>> traces;
  for (const auto& [variant, repeats] : bench.runs) {
    for (const trace::RunTrace& run : repeats) traces[variant].push_back(&run);
  }
  const scenario::CheckSpec spec;
  const compare::CheckInput input{.scenario = bench.scenario,
                                  .spec = spec,
                                  .traces = traces,
                                  .train_digests = bench.train_digests,
                                  .golden_root = {}};
  std::vector<std::string> causes;
  for (const compare::Suspect& suspect : suspects_of(compare::Scene(input, at))) {
    EXPECT_NE(compare::find_cause(suspect.cause), nullptr) << suspect.cause;
    EXPECT_FALSE(suspect.evidence.empty()) << suspect.cause;
    causes.push_back(suspect.cause);
  }
  return causes;
}

/// The likeliest; "" where none is named.
inline std::string cause_named(const Bench& bench, const compare::Divergence& at,
                               std::vector<compare::Suspect> (*suspects_of)(const compare::Scene&)) {
  const std::vector<std::string> causes = causes_named(bench, at, suspects_of);
  return causes.empty() ? "" : causes[0];
}

/// A divergence of "b" from "a".
inline compare::Divergence parted(std::int64_t step, trace::Channel channel, const std::string& tensor,
                                  std::int64_t rank = 0) {
  return {.step = step, .channel = channel, .tensor = tensor, .rank = rank, .left = "a/0", .right = "b/0"};
}

}  // namespace lockstep::test
