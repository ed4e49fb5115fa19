// What the worker tells of its buffers, gradients and mode: each mistake turns a law red, and a clean run keeps it.
#include <numeric>

#include <gtest/gtest.h>

#include "harness/laws/law.h"

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

/// Two ranks with one running mean of one element: 1 on rank 0, which stays; 3 on rank 1, which becomes `now`. By its
/// batch alone it would become 2.8.
trace::RunTrace with_mean(float now) {
  trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(2), .unplaced = {}};
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    run.ranks[rank].rank = static_cast<std::int64_t>(rank);
    const float before = rank == 0 ? 1 : 3, after = rank == 0 ? 1 : now;
    const trace::Record mean = test::floats(Channel::kBuffer, "mean", {after});
    const auto& buckets = mean.sketch->buckets;
    const double sign = std::accumulate(buckets.begin(), buckets.end(), 0.0) / after;
    run.ranks[rank].steps = {{.step = -1, .records = {test::floats(Channel::kBuffer, "mean", {before})}},
                             {.step = 0,
                              .records = {test::scalar(Channel::kLoss, "local", 1), mean,
                                          test::number("seen.buffer mean", sign * (rank == 0 ? 1 : 2.8)),
                                          test::number("seen.buffer_rounding mean", 0)}}};
  }
  return run;
}

scenario::Promises broadcasting(bool broadcasts) {
  scenario::Promises promises{.world_size = 2};
  promises.train.record.every = 1;
  promises.train.batch.accumulation = 1;
  promises.train.ddp.wrap = true;
  promises.train.ddp.broadcast_buffers = broadcasts;
  return promises;
}

/// From rank 0's 1 it becomes 2.8 - 0.9 * 2 = 1.
TEST(LawBuffers, RunningMeansMoveByTheBatchFromWhatIsBroadcast) {
  const Law& law = law_named("buffers");
  EXPECT_TRUE(law.judge(with_mean(1), broadcasting(true)).holds());
  EXPECT_TRUE(law.judge(with_mean(2.8F), broadcasting(false)).holds());
  const Outcome own = law.judge(with_mean(2.8F), broadcasting(true));
  ASSERT_TRUE(own.broken);
  EXPECT_EQ(own.broken->cause, "buffer.not_synced");
  EXPECT_EQ(own.broken->at.rank, 1);
  const Outcome other = law.judge(with_mean(1.00001F), broadcasting(true));
  ASSERT_TRUE(other.broken) << "off by 10^-5";
  EXPECT_EQ(other.broken->cause, "");
}

/// Passes after the first begin with what it broadcast; an epoch's end may leave a single one for an update.
TEST(LawBuffers, OnlyTheFirstPassOfAnUpdateIsBroadcast) {
  const Law& law = law_named("buffers");
  scenario::Promises accumulating = broadcasting(true);
  accumulating.train.batch.accumulation = 2;
  EXPECT_TRUE(law.judge(with_mean(1), accumulating).holds()) << "one pass is left";
  EXPECT_EQ(law.judge(with_mean(2.8F), accumulating).broken->cause, "buffer.not_synced");
  const auto second_pass = [](float now) {
    trace::RunTrace run = with_mean(now);
    for (trace::Trace& rank : run.ranks) rank.steps[1].records.push_back(test::scalar(Channel::kLoss, "local/1", 1));
    return run;
  };
  EXPECT_TRUE(law.judge(second_pass(2.8F), accumulating).holds());
  EXPECT_TRUE(law.judge(second_pass(1), accumulating).broken);
}

TEST(LawUsage, OfTheWorkerOnlyWhatItTells) {
  const Law& law = law_named("usage");
  const auto told = [](const char* entry, std::int64_t value) {
    trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(1), .unplaced = {}};
    run.ranks[0].steps = {{.step = 0, .records = {test::integer("updates", 1)}},
                          {.step = 1, .records = {test::integer(entry, value)}}};
    return run;
  };
  EXPECT_NE(law.unasked(told("updates", 2), {}), "");
  const trace::RunTrace left = told("seen.left", 4), evaluates = told("seen.training", 0);
  EXPECT_EQ(law.unasked(left, {}), "");
  EXPECT_EQ(law.judge(left, {}).broken->cause, "grad.not_zeroed");
  EXPECT_EQ(law.judge(evaluates, {}).broken->cause, "model.evaluation_mode");
  EXPECT_EQ(law.judge(evaluates, {}).broken->at.step, 1);
}

}  // namespace
}  // namespace lockstep::laws
