#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/diagnosis/causes.h"
#include "harness/diagnosis/scene.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {

/// Parameters of a tiny training.
inline constexpr const char* kParameters[] = {"fc.bias", "fc.weight"};

/// Two trainings "a" and "b" on the same batches, held against each other.
inline Json pair(std::int64_t world_of_a, std::int64_t world_of_b, Json train = Json::object()) {
  return {{"train", std::move(train)},
          {"variants", {{"a", {{"world_size", world_of_a}}}, {"b", {{"world_size", world_of_b}}}}},
          {"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}};
}

/// Ids of the causes that a diagnoser names for a divergence of the bench's runs, the likeliest first.
inline std::vector<std::string> causes_named(const Bench& bench, const compare::Divergence& at,
                                             std::vector<compare::Suspect> (*suspects_of)(const diagnosis::Scene&)) {
  const diagnosis::Question question = bench.question();
  std::vector<std::string> causes;
  for (const compare::Suspect& suspect : suspects_of(diagnosis::Scene(question, at))) {
    EXPECT_NE(diagnosis::find_cause(suspect.cause), nullptr) << suspect.cause;
    EXPECT_FALSE(suspect.evidence.empty()) << suspect.cause;
    causes.push_back(suspect.cause);
  }
  return causes;
}

/// The likeliest; "" where none is named.
inline std::string cause_named(const Bench& bench, const compare::Divergence& at,
                               std::vector<compare::Suspect> (*suspects_of)(const diagnosis::Scene&)) {
  const std::vector<std::string> causes = causes_named(bench, at, suspects_of);
  return causes.empty() ? "" : causes[0];
}

/// A divergence of "b" from "a".
inline compare::Divergence parted(std::int64_t step, trace::Channel channel, const std::string& tensor,
                                  std::int64_t rank = 0) {
  return {.step = step, .channel = channel, .tensor = tensor, .rank = rank, .left = "a/0", .right = "b/0"};
}

}  // namespace lockstep::test
