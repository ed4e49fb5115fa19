// harness/compare/pattern: what is regular about a divergence.
#include "harness/compare/pattern.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/support/tiny/bench.h"

namespace lockstep::compare {
namespace {

using namespace lockstep::test;
using trace::Channel;

class Patterns : public ::testing::Test {
 protected:
  Patterns() : bench_(Json{{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}}) {}

  /// Ids of the patterns of the gradients from `step` on.
  std::vector<std::string> ids(std::int64_t step, std::int64_t rank = 0, const std::string& tensor = "fc.weight",
                               Channel channel = Channel::kGradient, std::int64_t micro_batches = 1) {
    const Divergence at{.step = step, .channel = channel, .tensor = tensor, .rank = rank};
    std::vector<std::string> ids;
    for (const Pattern& one : patterns_of(bench_.run("a"), bench_.run("b"), at, micro_batches)) ids.push_back(one.id);
    return ids;
  }

  void scale(std::int64_t step, std::int64_t rank, const std::string& tensor, double factor) {
    trace::Record& record = at(bench_.run("b"), rank, step, Channel::kGradient, tensor);
    for (double& bucket : record.sketch->buckets) bucket *= factor;
    record.digest.low ^= 1;
  }

  Bench bench_;
};

using Ids = std::vector<std::string>;

TEST_F(Patterns, OneRankOneTensorOneStep) {
  spoil(bench_.run("b"), 1, 2, Channel::kGradient, "fc.bias");
  EXPECT_EQ(ids(2, 1, "fc.bias"), (Ids{"one_rank", "one_tensor", "one_step"}));
}

TEST_F(Patterns, BehindRoundingOnlyAFactorTells) {
  for (const std::int64_t rank : {0, 1}) scale(2, rank, "fc.weight", 2);
  Divergence at{.step = 2, .channel = Channel::kGradient, .tensor = "fc.weight"};
  const auto patterns = [&] { return patterns_of(bench_.run("a"), bench_.run("b"), at, 1); };
  spoil(bench_.run("b"), 1, 3, Channel::kLoss, "local");
  spoil(bench_.run("b"), 1, 2, Channel::kOptimizer, "fc.weight.momentum_buffer");
  EXPECT_GT(patterns().size(), 1U) << "what differs later";
  spoil(bench_.run("b"), 1, 2, Channel::kLoss, "local");
  ASSERT_EQ(patterns().size(), 1U);
  EXPECT_EQ(patterns()[0].id, "factor");
}

TEST_F(Patterns, BetweenWorldSizesWhatDiffersAnyhowHasNone) {
  Bench bench(Json{{"variants", {{"a", {{"world_size", 1}}}, {"b", {{"world_size", 2}}}}},
                   {"checks", {{{"that", "rounding"}, {"variants", {"a", "b"}}}}}});
  const auto patterns = [&](Channel channel, const std::string& tensor) {
    return patterns_of(bench.run("a"), bench.run("b"), {.step = 1, .channel = channel, .tensor = tensor}, 1);
  };
  for (const std::int64_t rank : {0, 1}) spoil(bench.run("b"), rank, 1, Channel::kWeight, "fc.weight");
  EXPECT_TRUE(patterns(Channel::kWeight, "fc.weight").empty());
  EXPECT_TRUE(patterns(Channel::kSamples, "ids").empty()) << "rank 0 takes others by right";
  EXPECT_FALSE(patterns(Channel::kLedger, "learning_rate").empty()) << "what counts is exact";
}

TEST_F(Patterns, AllOfThemFromAStepOn) {
  for (const std::int64_t step : {2, 3}) {
    for (const std::int64_t rank : {0, 1}) {
      for (const char* tensor : {"fc.weight", "fc.bias"})
        spoil(bench_.run("b"), rank, step, Channel::kGradient, tensor);
    }
  }
  const Ids found = ids(2);
  EXPECT_EQ(std::vector(found.begin(), found.begin() + 3), (Ids{"all_ranks", "all_tensors", "from_step"}));
}

TEST_F(Patterns, WhatIsNotThereDiffers) {
  for (const std::int64_t rank : {0, 1}) erase(bench_.run("b"), rank, 1, Channel::kGradient, "fc.bias");
  EXPECT_EQ(ids(1, 0, "fc.bias"), (Ids{"all_ranks", "one_tensor", "one_step"}));
}

TEST_F(Patterns, WhatBeginsInTheLastStepMayGoOn) {
  spoil(bench_.run("b"), 1, 3, Channel::kGradient, "fc.bias");
  EXPECT_EQ(ids(3, 1, "fc.bias"), (Ids{"one_rank", "one_tensor"}));
}

TEST_F(Patterns, EveryStep) {
  for (const std::int64_t step : {0, 1, 2, 3}) spoil(bench_.run("b"), 0, step, Channel::kGradient, "fc.bias");
  const Ids every = ids(0, 0, "fc.bias");
  EXPECT_NE(std::find(every.begin(), every.end(), "every_step"), every.end());
}

TEST_F(Patterns, AFactorOfTheRecipeIsNamed) {
  scale(1, 0, "fc.weight", 2);
  scale(1, 1, "fc.weight", 2);
  const Ids found = ids(1);
  EXPECT_EQ(found.back(), "factor");
  scale(1, 0, "fc.weight", 1.25);
  EXPECT_EQ(std::count_if(found.begin(), found.end(), [](const auto& id) { return id == "factor"; }), 1);
  const Ids other = ids(1);
  EXPECT_EQ(std::find(other.begin(), other.end(), "factor"), other.end());
}

TEST_F(Patterns, OneBucketIsRecognisedByItsElements) {
  for (trace::Step& step : bench_.run("b").ranks[0].steps) {
    std::erase_if(step.records, [](const trace::Record& record) { return record.channel == Channel::kCollective; });
    step.records.push_back(text(Channel::kCollective, "0", "allreduce Float[4] SUM"));
    step.records.push_back(text(Channel::kCollective, "1", "allreduce Float[32] SUM"));
  }
  spoil(bench_.run("b"), 0, 1, Channel::kGradient, "fc.bias");
  const Ids found = ids(1, 0, "fc.bias");
  EXPECT_NE(std::find(found.begin(), found.end(), "one_bucket"), found.end());
}

TEST_F(Patterns, NothingOfEqualRuns) { EXPECT_EQ(ids(1), Ids{}); }

}  // namespace
}  // namespace lockstep::compare
