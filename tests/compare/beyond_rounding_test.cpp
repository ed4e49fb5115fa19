// What no rounding makes, however little of it float64 leaves: where it is seen, and where a kink could be why.
#include "harness/compare/beyond_rounding.h"

#include <cmath>

#include "harness/compare/rounding.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {
namespace {

using compare::beyond_rounding;
using compare::Divergence;
using trace::Channel;
using trace::Record;

Json pair_of(std::int64_t ranks) {
  return {{"world_size", ranks},
          {"train", {{"batch", {{"global", 12}}}}},
          {"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}};
}

void scale(Record& record, double factor) {
  if (record.number) *record.number *= factor;
  if (record.norm) *record.norm *= factor;
  if (record.max_abs) *record.max_abs *= factor;
  if (record.sketch) {
    for (double& bucket : record.sketch->buckets) bucket *= factor;
    record.sketch->norm *= factor;
    record.sketch->max_abs *= factor;
  }
  record.digest.low ^= 1;
}

/// Multiplies the channel's records of "b" in one step, of all ranks or of one.
void scale(Bench& bench, std::int64_t step, Channel channel, double factor, std::int64_t only = -1) {
  for (std::int64_t rank = 0; rank < bench.run("b").world_size(); ++rank) {
    if (only >= 0 && rank != only) continue;
    for (Record& record : step_at(bench.run("b"), rank, step).records) {
      if (record.channel == channel) scale(record, factor);
    }
  }
}

constexpr Channel kComputed[] = {Channel::kSamples,  Channel::kLoss,      Channel::kGradientLocal,
                                 Channel::kGradient, Channel::kOptimizer, Channel::kWeight};

std::string place_in(const std::optional<Divergence>& at) { return at ? at->place_and_rank() : ""; }

/// In float64 the two are equal.
std::string found(Bench& bench, const std::string& optimizer = "sgd") {
  scenario::Variant left = bench.scenario.variant("a"), right = bench.scenario.variant("b");
  right.train.optimizer.kind = recipe::named<recipe::OptimizerKind>(optimizer);
  const trace::RunTrace &a = bench.run("a"), &b = bench.run("b");
  return place_in(beyond_rounding({a, left}, {b, right}, {a, b, a, a}, {std::begin(kComputed), std::end(kComputed)}));
}

/// In float64 nothing is left of what differs but a relative difference of one channel.
std::string found_shrinking(Bench& bench, double left, Channel of = Channel::kLoss) {
  const trace::RunTrace &a = bench.run("a"), &b = bench.run("b");
  trace::RunTrace in_float64 = a;
  for (trace::Trace& rank : in_float64.ranks) {
    for (trace::Step& step : rank.steps) {
      for (Record& record : step.records) {
        if (record.channel == of) scale(record, 1 + left);
      }
    }
  }
  return place_in(beyond_rounding({a, bench.scenario.variant("a")}, {b, bench.scenario.variant("b")},
                                  {a, b, a, in_float64}, {std::begin(kComputed), std::end(kComputed)}));
}

TEST(BeyondRounding, NothingIsBetweenEqualRuns) {
  for (const std::int64_t ranks : {1, 2, 3}) {
    Bench bench(pair_of(ranks));
    EXPECT_EQ(found(bench), "") << ranks;
  }
}

TEST(BeyondRounding, WhatRoundingExplainsIsNot) {
  for (const Channel channel : {Channel::kLoss, Channel::kGradientLocal, Channel::kGradient, Channel::kWeight}) {
    Bench bench(pair_of(3));
    scale(bench, 2, channel, 1 + 0x1p-23);
    EXPECT_EQ(found(bench), "") << trace::name_of(channel);
  }
}

TEST(BeyondRounding, LossesAndTheLastLayersGradients) {
  Bench loss(pair_of(3));
  scale(loss, 2, Channel::kLoss, 1.01, 1);
  EXPECT_EQ(found(loss).substr(0, 18), "step 2, loss local");
  Bench own(pair_of(3));
  scale(own, 2, Channel::kGradientLocal, 1.01);
  EXPECT_EQ(found(own).substr(0, 22), "step 2, gradient.local");
}

TEST(BeyondRounding, WhatKinksMayHaveMoved) {
  Bench bench(pair_of(3));
  for (const char* name : {"a", "b"}) add_last_layer(bench.run(name));
  for (const Channel channel : {Channel::kGradientLocal, Channel::kGradient}) scale(bench, 2, channel, 1.01);
  for (std::int64_t rank = 0; rank < 3; ++rank)
    at(bench.run("b"), rank, 2, Channel::kGradient, "out.weight") =
        at(bench.run("a"), rank, 2, Channel::kGradient, "out.weight");
  EXPECT_EQ(found(bench, "rmsprop"), "") << "of a hidden layer";
}

/// Float64 shows nothing about 16-bit arithmetic; between the bound and 16 times as much nothing is said.
TEST(BeyondRounding, WhatIsNotFarIsNotBeyond) {
  std::size_t between = 0, beyond = 0;
  for (int exponent = -10; exponent < 6; ++exponent) {
    Bench bench(pair_of(3));
    for (const char* name : {"a", "b"}) bench.run(name).ranks[0].header["arithmetic"] = "float16";
    for (const Channel channel : {Channel::kGradientLocal, Channel::kGradient})
      scale(bench, 2, channel, 1 + std::ldexp(1, exponent));
    const compare::RoundingBound bound(bench.run("a"), bench.run("b"));
    double times = 0;
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      for (const Record& record : step_at(bench.run("b"), rank, 2).records) {
        if (record.channel != Channel::kGradientLocal && record.channel != Channel::kGradient) continue;
        const auto rounding = bound.judge(at(bench.run("a"), rank, 2, record.channel, record.name), record, 2, rank);
        if (rounding) times = std::max(times, rounding->distance / rounding->bound);
      }
    }
    const bool near = times<15, far = times> 17;
    between += near && times > 2 ? 1 : 0;
    beyond += far ? 1 : 0;
    EXPECT_TRUE(far || found(bench).empty()) << times;
    EXPECT_TRUE(near || !found(bench).empty()) << times;
  }
  EXPECT_GT(between, 0U);
  EXPECT_GT(beyond, 0U);
}

/// A training that amplifies everything has its reasons for more than a bound on stable ones explains.
TEST(BeyondRounding, WhatHasGrownIsNotBeyond) {
  Bench bench(pair_of(3));
  for (const std::int64_t step : {1, 2}) scale(bench, step, Channel::kLoss, 1 + (step == 1 ? 0x1p-22 : 0x1p-18));
  EXPECT_EQ(found_shrinking(bench, 0x1p-60), "") << "16 times as much as in the step before";
  Bench jumps(pair_of(3));
  for (const std::int64_t step : {1, 2}) scale(jumps, step, Channel::kLoss, 1 + (step == 1 ? 0x1p-22 : 0x1p-14));
  EXPECT_EQ(found_shrinking(jumps, 0x1p-60).substr(0, 6), "step 2");
  Bench amplified(pair_of(3));
  scale(amplified, 2, Channel::kLoss, 1 + 0x1p-4);
  EXPECT_EQ(found_shrinking(amplified, 0x1p-41), "") << "grown in float64, too";
}

/// All losses are 1. They differ by 2^-22 in step 1, and by so many times that in step 2.
TEST(BeyondRounding, AStepAmplifiesWhatItInheritsByThirtyTwoAtMost) {
  const auto found_after = [](double times) {
    Bench bench(pair_of(3));
    for (const char* name : {"a", "b"}) {
      for (trace::Trace& rank : bench.run(name).ranks) {
        for (trace::Step& step : rank.steps) {
          for (Record& record : step.records) {
            if (record.channel == Channel::kLoss) record = scalar(Channel::kLoss, record.name, 1);
          }
        }
      }
    }
    for (const std::int64_t step : {1, 2}) scale(bench, step, Channel::kLoss, 1 + (step == 1 ? 1 : times) * 0x1p-22);
    return found_shrinking(bench, 0x1p-60);
  };
  EXPECT_EQ(found_after(31), "");
  EXPECT_EQ(found_after(33).substr(0, 12), "step 2, loss");
}

/// Within all bounds, and yet more than the rounding of the step, which float64 shows.
TEST(BeyondRounding, WhatShrinksByMoreThanRounding) {
  for (const Channel channel : {Channel::kLoss, Channel::kGradient}) {
    Bench bench(pair_of(3));
    scale(bench, 2, channel, 1 + 0x1p-18);
    if (channel == Channel::kGradient) scale(bench, 2, Channel::kGradientLocal, 1 + 0x1p-18);
    EXPECT_EQ(found_shrinking(bench, 0).substr(0, 6), "step 2");
    EXPECT_EQ(found_shrinking(bench, 0x1p-50), "") << "by 2^-32";
    bench.run("b").ranks[0].header["arithmetic"] = "bfloat16";
    EXPECT_EQ(found_shrinking(bench, 0), "");
  }
  Bench hidden(pair_of(3));
  for (const char* name : {"a", "b"}) add_last_layer(hidden.run(name));
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    for (const Channel channel : {Channel::kGradientLocal, Channel::kGradient})
      scale(at(hidden.run("b"), rank, 2, channel, "fc.weight"), 1 + 0x1p-18);
  }
  scale(hidden, 3, Channel::kLoss, 1 + 0x1p-18);
  EXPECT_EQ(found_shrinking(hidden, 0), "") << "a kink, and what it has led to";
  for (scenario::Variant& variant : hidden.scenario.variants)
    variant.train.model.kind = recipe::ModelKind::kTransformer;
  EXPECT_EQ(found_shrinking(hidden, 0).substr(0, 35), "step 2, gradient.local fc.weight, r");
  hidden.scenario.variants[0].train.model.kind = recipe::ModelKind::kMlp;
  EXPECT_EQ(found_shrinking(hidden, 0), "") << "one of them may have a kink";
}

/// A small divisor amplifies in both precisions, and what comes after it can be told.
TEST(BeyondRounding, WhatIsAmplifiedInFloat64TooHidesNothing) {
  Bench bench(pair_of(3));
  scale(bench, 1, Channel::kWeight, 1 + 0x1p-18);
  scale(bench, 2, Channel::kLoss, 1 + 0x1p-18);
  EXPECT_EQ(found_shrinking(bench, 0).substr(0, 6), "step 1");
  EXPECT_EQ(found_shrinking(bench, 0x1p-46, Channel::kWeight).substr(0, 6), "step 2");
}

TEST(BeyondRounding, WhatOneSideAloneMakesInTheReduction) {
  for (const std::int64_t rank : {-1, 0, 2}) {
    Bench bench(pair_of(3));
    scale(bench, 2, Channel::kGradient, 1 + 0x1p-10, rank);
    EXPECT_EQ(found(bench).substr(0, 16), "step 2, gradient") << rank;
    Bench both(pair_of(3));
    scale(both, 2, Channel::kGradient, 1 + 0x1p-10, rank);
    both.run("a") = both.run("b");
    EXPECT_EQ(found(both), "") << "both sides do";
  }
}

TEST(BeyondRounding, UpdatesOfSgdAreLinearAndOthersAreNot) {
  Bench bench(pair_of(3));
  scale(bench, 2, Channel::kWeight, 1.01);
  EXPECT_EQ(found(bench).substr(0, 14), "step 2, weight");
  EXPECT_EQ(found(bench, "rmsprop"), "") << "a small divisor may be why";
}

TEST(BeyondRounding, ChannelsThatTheTwoNeedNotShareAreLeftOut) {
  Bench bench(pair_of(3));
  scale(bench, 2, Channel::kGradientLocal, 1.5);
  scale(bench, 2, Channel::kGradient, 1 + 0x1p-23);
  const auto& left = bench.scenario.variant("a");
  const trace::RunTrace &a = bench.run("a"), &b = bench.run("b");
  EXPECT_FALSE(beyond_rounding({a, left}, {b, left}, {a, b, a, b}, {Channel::kLoss, Channel::kWeight}));
}

TEST(BeyondRounding, WhatOneSideLacksIsNoMatterOfRounding) {
  Bench bench(pair_of(3));
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    std::erase_if(step_at(bench.run("b"), rank, 1).records,
                  [](const Record& record) { return record.channel != Channel::kWeight; });
  }
  EXPECT_EQ(found(bench), "");
}

TEST(BeyondRounding, WhatClippingMakesFollowsTheKinksOfAllLayers) {
  Bench bench(pair_of(3));
  for (const char* name : {"a", "b"}) {
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      Record clipped = at(bench.run(name), rank, 2, Channel::kGradient, "fc.weight");
      clipped.name = "clipped fc.weight";
      if (std::string(name) == "b") scale(clipped, 1.01);
      step_at(bench.run(name), rank, 2).records.push_back(clipped);
    }
  }
  EXPECT_EQ(found(bench, "rmsprop"), "");
}

TEST(BeyondRounding, WhatFollowsAnUnexplainedStepMayBeItsDoing) {
  Bench bench(pair_of(3));
  scale(bench, 1, Channel::kWeight, 1.01);
  scale(bench, 2, Channel::kLoss, 1.01);
  EXPECT_EQ(found(bench, "rmsprop"), "");
}

}  // namespace
}  // namespace lockstep::test
