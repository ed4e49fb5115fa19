#include "tests/support/tiny/bench.h"

// Check "resumes": the interrupted training goes on as if nothing had been.

namespace lockstep::test {
namespace {

using trace::Channel;

constexpr std::int64_t kSaved = 4;  ///< the step after which the checkpoint was saved

/// 10 updates straight, and 5 + 5 with a restart.
Json resumed(const Json& on = Json()) {
  Json check = {{"that", "resumes"}, {"straight", "straight"}, {"interrupted", "resumed"}};
  if (!on.is_null()) check["on"] = on;
  return {{"train", {{"steps", 10}, {"data", {{"size", 36}}}}},
          {"variants",
           {{"straight", Json::object()},
            {"half", {{"train", {{"steps", 5}, {"checkpoint", {{"save_after", 5}}}}}}},
            {"resumed", {{"train", {{"checkpoint", {{"load", {{"from", "half"}}}}}}}}}}},
          {"checks", {check}}};
}

class Resumes : public testing::Test {
 protected:
  Resumes() { run() = resumed_from(bench_.run("straight"), kSaved + 1, "resumed/0"); }

  trace::RunTrace& run() { return bench_.run("resumed"); }

  Bench bench_{resumed()};
};

TEST_F(Resumes, AgreesWhenNothingWasLost) {
  const auto result = bench_.check();
  EXPECT_TRUE(agrees(result));
  EXPECT_GT(result.compared, 5U * 2U * 10U) << "five steps of two ranks";
}

TEST_F(Resumes, SeesLostMomentumInTheStateAfterLoading) {
  for (const std::int64_t rank : {0, 1}) {
    for (const char* name : {"fc.bias.momentum_buffer", "fc.weight.momentum_buffer"})
      erase(run(), rank, kSaved, Channel::kOptimizer, name);
  }
  const auto result = bench_.check();
  ASSERT_TRUE(diverges_at(result, kSaved, Channel::kOptimizer, "fc.bias.momentum_buffer", 0));
  EXPECT_NE(result.divergence->cause.find("already in the state after loading"), std::string::npos);
}

TEST_F(Resumes, SeesALostSamplerPosition) {
  put(run(), 0, kSaved + 1, at(bench_.run("straight"), 0, 0, Channel::kSamples, "ids"));
  const auto result = bench_.check();
  ASSERT_TRUE(diverges_at(result, kSaved + 1, Channel::kSamples, "ids", 0));
  EXPECT_EQ(result.divergence->cause.find("already in the state"), std::string::npos);
}

TEST_F(Resumes, SeesALostGenerator) {
  put(run(), 1, kSaved, text(Channel::kRng, "cpu", "state after 0 updates"));
  EXPECT_TRUE(diverges_at(bench_.check(), kSaved, Channel::kRng, "cpu", 1));
}

TEST_F(Resumes, SeesALostLearningRate) {
  put(run(), 1, kSaved + 1, number("learning_rate", 0.2));
  EXPECT_TRUE(diverges_at(bench_.check(), kSaved + 1, Channel::kLedger, "learning_rate", 1));
}

TEST_F(Resumes, SeesLostWeights) {
  for (const std::int64_t rank : {0, 1})
    put(run(), rank, kSaved, at(bench_.run("straight"), 0, -1, Channel::kWeight, "fc.weight"));
  EXPECT_TRUE(diverges_at(bench_.check(), kSaved, Channel::kWeight, "fc.weight", 0));
}

TEST_F(Resumes, IsNotFooledByARunThatNeverLoaded) {
  run() = bench_.run("straight");
  const auto result = bench_.check();
  ASSERT_TRUE(diverges_at(result, -1, Channel::kLedger, "updates", 0)) << "it equals the straight run in every record";
  EXPECT_EQ(result.divergence->expected, "the state after 5 updates");
  EXPECT_EQ(result.divergence->actual, "the state after 0 updates");
}

TEST_F(Resumes, SeesACounterAhead) {
  run() = resumed_from(bench_.run("straight"), kSaved + 2, "resumed/0");
  EXPECT_TRUE(diverges_at(bench_.check(), kSaved + 1, Channel::kLedger, "updates", 0));
}

TEST_F(Resumes, SeesARunThatStopsBeforeTheStraightOne) {
  for (const std::int64_t rank : {0, 1}) erase_step(run(), rank, 9);
  const auto result = bench_.check();
  ASSERT_TRUE(diverges_at(result, 9, Channel::kSamples, "", 0));
  EXPECT_EQ(result.divergence->left.missing, compare::Missing::kNothing);
  EXPECT_EQ(result.divergence->right.missing, compare::Missing::kStep);
}

TEST_F(Resumes, LeavesTheBucketLayoutsBroadcastOut) {
  step_at(run(), 0, kSaved + 1).records.push_back(text(Channel::kCollective, "1", "broadcast Int[3] from 0"));
  EXPECT_TRUE(agrees(bench_.check()));
  bench_.scenario.checks[0].channels = {Channel::kCollective};
  EXPECT_TRUE(diverges_at(bench_.check(), kSaved + 1, Channel::kCollective, "1", 0));
}

TEST_F(Resumes, IsInconclusiveWithoutACommonStep) {
  for (trace::Trace& rank : run().ranks) rank.steps.clear();
  EXPECT_TRUE(is_inconclusive(bench_.check(), "no step"));
  run() = resumed_from(bench_.run("straight"), kSaved + 1, "resumed/0");
  for (trace::Trace& rank : bench_.run("straight").ranks)
    std::erase_if(rank.steps, [](const trace::Step& step) { return step.step > kSaved; });
  EXPECT_TRUE(is_inconclusive(bench_.check(), "share no step"));
  for (trace::Trace& rank : bench_.run("straight").ranks) rank.steps.clear();
  EXPECT_TRUE(is_inconclusive(bench_.check(), "share no step"));
}

TEST_F(Resumes, IsInconclusiveOnAChannelRecordedByNobody) {
  bench_.scenario.checks[0].channels = {Channel::kEma};
  EXPECT_TRUE(is_inconclusive(bench_.check()));
  bench_.scenario.checks[0].channels = {Channel::kWeight, Channel::kEma};
  EXPECT_TRUE(is_inconclusive(bench_.check(), "'ema'"));
}

TEST_F(Resumes, ComparesAnotherWorldSizeByWhatIsShared) {
  Json changes = resumed({"samples", "loss", "ledger"});
  changes["variants"]["resumed"]["world_size"] = 3;
  Bench bench(changes);
  auto& run = bench.run("resumed");
  run = resumed_from(run, kSaved + 1, "resumed/0");
  for (trace::RunTrace* side : {&run, &bench.run("straight")}) {
    for (std::int64_t rank = 0; rank < side->world_size(); ++rank) {
      for (std::int64_t step = 5; step < 10; ++step) put(*side, rank, step, scalar(Channel::kLoss, "reduced", 0.5F));
    }
  }
  EXPECT_TRUE(agrees(bench.check()));
  auto ids = at(run, 2, 7, Channel::kSamples, "ids").integers;
  ids[0] = ids[1];
  put(run, 2, 7, integers(Channel::kSamples, "ids", ids));
  EXPECT_TRUE(diverges_at(bench.check(), 7, Channel::kSamples, "ids", 0));
}

TEST_F(Resumes, KnowsWhereASparseTraceBegins) {
  Json changes = resumed();
  changes["train"]["record"]["every"] = 3;
  Bench bench(changes);
  auto& run = bench.run("resumed");
  run = bench.run("straight");
  for (trace::Trace& rank : run.ranks) std::erase_if(rank.steps, [](const trace::Step& step) { return step.step < 6; });
  EXPECT_TRUE(agrees(bench.check())) << "saved after step 4, first recorded at step 6";
  spoil(run, 0, 6, Channel::kGradient, "fc.bias");
  EXPECT_TRUE(diverges_at(bench.check(), 6, Channel::kGradient, "fc.bias", 0));
}

}  // namespace
}  // namespace lockstep::test
