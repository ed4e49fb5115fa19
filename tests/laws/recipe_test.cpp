// Losses and generators of a recipe's training, of which one record is spoiled.
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "harness/laws/law.h"

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;

/// What a step holds, before it is recorded.
struct Told {
  double loss = 2, expected = 2, rounding = 1e-7;
  std::int64_t position = 0, state = 0;
  std::optional<std::int64_t> of_gpu = {};  ///< state of a GPU's generator
};
using Change = std::function<void(std::int64_t step, Told& told)>;

constexpr std::int64_t kStepsOfRun = 12, kOfEpoch = 6, kDraws = 144;

trace::RunTrace told_by(const Change& change) {
  trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(1)};
  for (std::int64_t step = 0; step < kStepsOfRun; ++step) {
    Told told{.position = step * kDraws % 624, .state = step};
    if (change) change(step, told);
    Record generator = test::integers(Channel::kRng, "cpu", {0, told.position});
    generator.digest = {.high = 1, .low = static_cast<std::uint64_t>(told.state)};
    Record of_gpu = test::integers(Channel::kRng, "cuda", {});
    of_gpu.digest = {.high = 2, .low = static_cast<std::uint64_t>(told.of_gpu.value_or(0))};
    Record local = test::number("local", told.loss), expected = test::number("seen.loss", told.expected);
    local.channel = Channel::kLoss;
    local.dtype = trace::DType::kFloat32;
    run.ranks[0].steps.push_back(
        {.step = step,
         .records = {generator, local, expected, test::number("seen.loss_rounding", told.rounding),
                     test::floats(Channel::kInput, "x", {1, 2}), test::integer("epoch", step / kOfEpoch)}});
    if (told.of_gpu) run.ranks[0].steps.back().records.push_back(of_gpu);
  }
  return run;
}

scenario::Promises promised(double dropout = 0, const char* device = "cpu") {
  scenario::Promises promises;
  promises.world_size = 1;
  promises.train.record.every = 1;
  promises.train.device = device;
  promises.train.seed.policy = recipe::SeedPolicy::kSame;
  promises.train.batch.accumulation = 4;
  if (dropout > 0)
    promises.train.model.options = {{"dropout", dropout}};
  else
    promises.train.model.options = Json::object();
  promises.train.data.options = Json::object();
  return promises;
}

Outcome judged(const char* law, const Change& change = {}, double dropout = 0, const char* device = "cpu") {
  return ask(law_named(law), told_by(change), promised(dropout, device));
}

TEST(LossByDefinition, IsKeptWithinRounding) {
  EXPECT_TRUE(judged("loss").holds());
  const auto off = [](double by) {
    return judged("loss", [=](std::int64_t step, Told& told) { told.loss += step == 4 ? by : 0; });
  };
  EXPECT_FALSE(off(1e-6).broken);
  const Outcome broken = off(1e-5);
  ASSERT_TRUE(broken.broken);
  EXPECT_EQ(broken.broken->at.step, 4);
  EXPECT_EQ(broken.broken->cause, "");
}

/// A log-softmax adds exp(0) up, beside which a small loss vanishes; a copy may show no rounding.
TEST(LossByDefinition, OfAlmostZeroMayBeZero) {
  const auto lost = [](double expected) {
    return judged("loss", [=](std::int64_t, Told& told) { told.loss = told.rounding = 0, told.expected = expected; });
  };
  EXPECT_FALSE(lost(4e-8).broken);
  EXPECT_TRUE(lost(4e-6).broken);
}

TEST(LossByDefinition, TheNumberOfMicroBatchesIsNamed) {
  const auto times = [](double factor) {
    const Outcome outcome = judged("loss", [=](std::int64_t, Told& told) { told.loss *= factor; });
    return outcome.broken ? outcome.broken->cause : "none";
  };
  EXPECT_EQ(times(4), "grad.accum_scale");
  EXPECT_EQ(times(3), "");
  EXPECT_EQ(times(1), "none");
}

/// A step is skipped, and no gradient is in the trace: because nobody recorded any, or because there was none.
TEST(LossScale, IsNotHeldAgainstGradientsThatNobodyRecords) {
  trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(1)};
  run.ranks[0].steps.push_back({.step = 0, .records = {test::number("loss_scale", 1024), test::integer("skipped", 1)}});
  scenario::Promises promises;
  promises.train.record = {.channels = {"ledger"}, .every = 1};
  promises.train.gradient.loss_scale = 1024;
  const Outcome untold = ask(law_named("scale"), run, promises);
  EXPECT_FALSE(untold.broken);
  EXPECT_EQ(untold.because, "the run does not record 'gradient'");
  promises.train.record.channels.emplace_back("gradient");
  EXPECT_TRUE(ask(law_named("scale"), run, promises).broken);
}

TEST(Generators, OneThatGoesOnKeepsTheLaw) {
  EXPECT_TRUE(judged("generators").holds());
  EXPECT_TRUE(judged("generators", {}, 0.5).holds());
}

TEST(Generators, NoStateComesAgain) {
  const Outcome outcome =
      judged("generators", [](std::int64_t step, Told& told) { told.state = step == 7 ? 2 : step; });
  ASSERT_TRUE(outcome.broken);
  EXPECT_EQ(outcome.broken->at.step, 7);
}

TEST(Generators, WhatIsDroppedIsDrawn) {
  const Change stands = [](std::int64_t step, Told& told) { told.state = step < 3 ? step : 3; };
  EXPECT_FALSE(judged("generators", stands).broken) << "nothing has to draw";
  const Outcome outcome = judged("generators", stands, 0.5);
  ASSERT_TRUE(outcome.broken);
  EXPECT_EQ(outcome.broken->at.step, 4);
}

TEST(Generators, AGpuDropsWhatItsOwnGeneratorDraws) {
  const auto on_gpu = [](const std::function<std::int64_t(std::int64_t)>& state) {
    return judged(
        "generators",
        [&](std::int64_t step, Told& told) {
          told.state = 0;  // nothing draws from the CPU's
          told.of_gpu = state(step);
        },
        0.5, "cuda");
  };
  EXPECT_TRUE(on_gpu([](std::int64_t step) { return step; }).holds());
  const Outcome stands = on_gpu([](std::int64_t step) { return step < 3 ? step : 3; }),
                again = on_gpu([](std::int64_t step) { return step == 7 ? 2 : step; });
  ASSERT_TRUE(stands.broken && again.broken);
  EXPECT_EQ(stands.broken->at.step, 4);
  EXPECT_EQ(stands.broken->at.tensor, "cuda");
  EXPECT_EQ(again.broken->at.step, 7);
}

TEST(Generators, TheRankThatDrawsMoreIsBlamed) {
  const auto blamed = [](std::int64_t ranks, std::int64_t who, std::int64_t more) {
    trace::RunTrace run{.run = "a/0", .ranks = {}};
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      run.ranks.push_back(told_by([=](std::int64_t step, Told& told) {
                            if (rank == who && step >= 3) told.position = (told.position + more + 624) % 624;
                          }).ranks[0]);
      run.ranks.back().rank = rank;
      run.ranks.back().world_size = ranks;
    }
    scenario::Promises promises = promised();
    promises.world_size = ranks;
    const Outcome outcome = ask(law_named("generators"), run, promises);
    return outcome.broken ? outcome.broken->at.rank : -1;
  };
  EXPECT_EQ(blamed(2, 0, 2), 0);
  EXPECT_EQ(blamed(2, 1, 2), 1);
  EXPECT_EQ(blamed(3, 0, 2), 0);
  EXPECT_EQ(blamed(3, 1, -2), 1) << "fewer than the others";
  EXPECT_EQ(blamed(2, 0, 0), -1);
}

TEST(Generators, ADrawInBetweenIsNamed) {
  const auto from = [](std::int64_t first, std::int64_t more) {
    return judged("generators", [=](std::int64_t step, Told& told) {
      if (step >= first) told.position = (told.position + more) % 624;
    });
  };
  const Outcome few = from(3, 2), many = from(3, 100);
  ASSERT_TRUE(few.broken && many.broken);
  EXPECT_EQ(few.broken->at.step, 3);
  EXPECT_EQ(few.broken->cause, "rng.loader_draw");
  EXPECT_EQ(many.broken->cause, "");
  EXPECT_FALSE(from(kOfEpoch, 2).broken) << "a loader draws where an epoch begins";
}

}  // namespace
}  // namespace lockstep::laws
