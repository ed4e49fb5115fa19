#include "harness/compare/rounding.h"

#include <cmath>
#include <limits>

#include "tests/support/tiny/bench.h"

// Check "rounding": what another order of additions explains, and what it does not.

namespace lockstep::test {
namespace {

using trace::Channel;

/// "a" on one rank, "b" on `world_size`, the same global batch of 24.
Json across(std::int64_t world_size, const Json& on = Json(), std::int64_t steps = 6) {
  Json check = {{"that", "rounding"}, {"variants", {"a", "b"}}};
  if (!on.is_null()) check["on"] = on;
  return {{"train", {{"batch", {{"global", 24}}}, {"data", {{"size", 96}}}, {"steps", steps}}},
          {"variants", {{"a", {{"world_size", 1}}}, {"b", {{"world_size", world_size}}}}},
          {"checks", {check}}};
}

const Json kComputed = {"gradient", "optimizer", "weight"};

TEST(Rounding, AgreesOnOtherOrdersOfAddition) {
  for (const std::int64_t world_size : {1, 2, 3, 4, 6, 8}) {
    Bench bench(across(world_size, Json(), 20));
    EXPECT_TRUE(agrees(bench.check())) << world_size << " ranks";
    const auto weight = [&](const char* side) {
      return at(bench.run(side), 0, 19, Channel::kWeight, "fc.weight").digest;
    };
    EXPECT_EQ(weight("a") == weight("b"), world_size == 1) << world_size << " ranks: nothing was rounded";
  }
}

TEST(Rounding, SeesOneLostSampleOf24) {
  const Faults lost{.ids = [](auto step, auto rank, auto& ids) {
    if (step == 2 && rank == 3) ids.pop_back();
  }};
  Bench all(across(4));
  all.rerun("b", lost);
  EXPECT_TRUE(diverges_at(all.check(), 2, Channel::kSamples, "ids", 0));
  Bench computed(across(4, kComputed));
  computed.rerun("b", lost);
  EXPECT_TRUE(diverges_at(computed.check(), 2, Channel::kGradient, "fc.bias", 0));
}

/// What is within the bound of two trainings is beyond that of one reduction.
TEST(Rounding, SeesAGradientThatIsNotWhatTheRanksOwnMake) {
  for (const char* side : {"a", "b"}) {
    for (const bool recorded : {true, false}) {
      Bench bench(across(4, kComputed));
      bench.rerun(side, {.gradient = [](auto step, auto& name, auto& gradient) {
                    if (step == 2 && name == "fc.weight") gradient[1] += 0x1p-18F;
                  }});
      if (!recorded) erase_channel(bench.run(side), Channel::kGradientLocal);
      const auto result = bench.check();
      if (!recorded) {
        EXPECT_TRUE(agrees(result)) << side;
      } else {
        ASSERT_TRUE(diverges_at(result, 2, Channel::kGradient, "fc.weight", 0)) << side;
        EXPECT_NE(result.divergence->relation.find("own gradients"), std::string::npos);
      }
    }
  }
}

TEST(Rounding, SeesAGradientOffByOnePartInAThousand) {
  for (const std::int64_t begin : {0, 5}) {
    Bench bench(across(4, kComputed));
    bench.rerun("b", {.gradient = [=](auto step, auto&, auto& gradient) {
                  for (float& value : gradient) value *= step >= begin ? 1 + 0x1p-10F : 1;
                }});
    EXPECT_TRUE(diverges_at(bench.check(), begin, Channel::kGradient, "fc.bias", 0));
  }
}

TEST(Rounding, SeesASumWhereAMeanWasMeant) {
  Json changes = across(4, {"gradient"});
  changes["variants"]["b"]["train"]["ddp"]["average"] = false;
  const auto result = Bench(changes).check();
  ASSERT_TRUE(diverges_at(result, 0, Channel::kGradient, "fc.bias", 0));
  EXPECT_NE(result.divergence->relation.find("right = 4 x left"), std::string::npos) << result.divergence->relation;
}

TEST(Rounding, SeesALearningRateOffByOnePartInAThousand) {
  for (const std::int64_t begin : {0, 19}) {
    Bench bench(across(4, {"weight"}, 20));
    bench.rerun("b", {.silent_rate = [=](auto step, double rate) { return step >= begin ? rate * 1.001 : rate; }});
    const auto result = bench.check();
    ASSERT_EQ(result.status, Status::kDivergence) << "from step " << begin;
    EXPECT_EQ(result.divergence->step, begin) << "a late fault must show in its own update";
  }
}

TEST(Rounding, SeesALostMomentum) {
  Json changes = across(4, kComputed);
  changes["variants"]["b"]["train"]["optimizer"]["momentum"] = 0.8999;
  EXPECT_TRUE(diverges_at(Bench(changes).check(), 1, Channel::kOptimizer, "fc.bias.momentum_buffer", 0));
}

TEST(Rounding, SeesOneRankWhoseGradientWasNotReduced) {
  Bench bench(across(4, kComputed));
  put(bench.run("b"), 2, 3, floats(Channel::kGradient, "fc.bias", {1, 2, 3, 4}));
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kGradient, "fc.bias", 2))
      << "ranks that disagree are no matter of rounding";
}

/// Ranks of one run hold the result of one reduction. Each may add in its own order, and nothing more.
TEST(Rounding, NeverAgreesWhereTheRanksOfARunDisagree) {
  for (const float factor : {1 + 0x1p-23F, 1.01F, 0x1p100F}) {
    for (const std::string side : {"a", "b"}) {
      Json changes = across(4, kComputed);
      changes["variants"]["a"]["world_size"] = 2;
      Bench bench(changes);
      for (const std::string each : {"a", "b"}) {
        for (std::int64_t rank = 0; rank < bench.run(each).world_size(); ++rank) {
          const float first = each == side && rank == 1 ? factor : 1;
          put(bench.run(each), rank, 5, floats(Channel::kGradient, "fc.bias", {first, 2, 3, 4}));
        }
      }
      const auto result = bench.check();
      if (factor == 1 + 0x1p-23F) {
        EXPECT_TRUE(agrees(result)) << side;
      } else {
        ASSERT_TRUE(diverges_at(result, 5, Channel::kGradient, "fc.bias", 1)) << side << " by " << factor;
        EXPECT_TRUE(result.is_no_rounding);
      }
    }
  }
}

/// As an average that rank 0 alone keeps.
TEST(Rounding, LeavesToOneRankWhatItAloneRecords) {
  Bench bench(across(4, {"gradient", "weight"}));
  for (const char* side : {"a", "b"})
    step_at(bench.run(side), 0, 2).records.push_back(floats(Channel::kWeight, "averaged", {1, 2}));
  EXPECT_FALSE(checks::ranks_apart(bench.run("b"), {Channel::kGradient, Channel::kWeight}));
}

TEST(Rounding, SeesOneFlippedBitOfAWeight) {
  Bench bench(across(2, kComputed));
  bench.rerun("b", {.weight = [](auto step, auto& name, auto& weight) {
                if (step == 4 && name == "fc.weight") weight[5] *= 1.0005F;
              }});
  EXPECT_TRUE(diverges_at(bench.check(), 4, Channel::kWeight, "fc.weight", 0));
}

TEST(Rounding, TakesInputsBitForBitAndTheLedgerToTheLastPlaces) {
  Json same_world = across(1);
  Bench input(same_world);
  auto& record = at(input.run("b"), 0, 1, Channel::kInput, "x");
  record.digest.low ^= 1;  // as far away as a digest can tell, and no further
  EXPECT_TRUE(diverges_at(input.check(), 1, Channel::kInput, "x", 0));
  Bench ledger(across(4));
  put(ledger.run("b"), 1, 2, number("learning_rate", std::nextafter(0.1, 1)));
  EXPECT_TRUE(agrees(ledger.check())) << "another libm";
  put(ledger.run("b"), 1, 2, number("learning_rate", 0.1 * (1 + 0x1p-48)));
  EXPECT_TRUE(diverges_at(ledger.check(), 2, Channel::kLedger, "learning_rate", 1));
}

/// A metric is added up in float64, of what float32 computes; rounding turns a prediction, and no count of samples.
TEST(Rounding, TakesTheLossOfAnEvaluationAndNotItsAccuracy) {
  const auto judged = [](double loss, double accuracy, std::int64_t counted) {
    Bench bench(across(4));
    const auto add = [&](const char* side, trace::Record record) {
      record.channel = Channel::kMetric;
      for (trace::Trace& rank : bench.run(side).ranks) step_at(bench.run(side), rank.rank, 3).records.push_back(record);
    };
    for (const char* side : {"a", "b"}) {
      const bool is_other = side == std::string("b");
      add(side, number("loss", is_other ? loss : 2));
      add(side, number("accuracy", is_other ? accuracy : 0.5));
      add(side, integer("counted", is_other ? counted : 24));
    }
    return bench.check();
  };
  EXPECT_TRUE(agrees(judged(2 * (1 + 0x1p-24), 13.0 / 24, 24)));
  EXPECT_TRUE(diverges_at(judged(2 * (1 + 0x1p-10), 0.5, 24), 3, Channel::kMetric, "loss", 0));
  EXPECT_TRUE(diverges_at(judged(2, 0.5, 25), 3, Channel::kMetric, "counted", 0));
}

TEST(Rounding, AllowsAMeanOverTheWorldItsOwnDenominator) {
  Bench bench(across(1));
  put(bench.run("b"), 0, 2, integer("loss_denominator", 48));
  EXPECT_TRUE(agrees(bench.check()));
  put(bench.run("b"), 0, 2, integer("samples_taken", 48));
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kLedger, "samples_taken", 0));
}

/// Gradients that rounding has moved are not equal: no sentence may say so.
TEST(Rounding, SaysOfWhatItPassedThatItDiffers) {
  Bench bench(across(4, {"gradient", "weight"}));
  bench.rerun("b", {.weight = [](auto step, auto& name, auto& weight) {
                if (step == 2 && name == "fc.weight") weight[0] *= 1.5F;
              }});
  const auto result = bench.check();
  ASSERT_TRUE(diverges_at(result, 2, Channel::kWeight, "fc.weight", 0));
  EXPECT_EQ(result.divergence->cause.find("other weights; gradients differ, too"), 0U) << result.divergence->cause;
}

TEST(Rounding, NeverExplainsWhatIsNotFinite) {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  Bench bench(across(4, {"weight"}));
  put(bench.run("b"), 0, 2, floats(Channel::kWeight, "fc.bias", {nan, 0, 0, 0}));
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kWeight, "fc.bias", 0));
  put(bench.run("a"), 0, 2, floats(Channel::kWeight, "fc.bias", {0, nan, 0, 0}));
  EXPECT_TRUE(is_inconclusive(bench.check(), "NaN")) << "on both sides, elsewhere";

  Bench overflow(across(1, {"gradient"}));
  put(overflow.run("b"), 0, 2, floats(Channel::kGradient, "fc.bias", {infinity, 0, 0, 0}));
  EXPECT_TRUE(diverges_at(overflow.check(), 2, Channel::kGradient, "fc.bias", 0))
      << "an infinite norm must not make the bound infinite";

  Bench loss(across(1, {"loss"}));
  put(loss.run("b"), 0, 2, scalar(Channel::kLoss, "reduced", infinity));
  EXPECT_TRUE(diverges_at(loss.check(), 2, Channel::kLoss, "reduced", 0));
}

TEST(Rounding, IsInconclusiveWhenBothSidesAreNanEverywhere) {
  const float nan = std::nanf("");
  Bench bench(across(4, kComputed));
  const Faults all_nan{.gradient = [=](auto, auto&, auto& gradient) { gradient.assign(gradient.size(), nan); }};
  bench.rerun("a", all_nan);
  bench.rerun("b", all_nan);
  ASSERT_EQ(at(bench.run("a"), 0, 0, Channel::kGradient, "fc.bias").digest,
            at(bench.run("b"), 0, 0, Channel::kGradient, "fc.bias").digest);
  EXPECT_TRUE(is_inconclusive(bench.check(), "NaN"));
}

TEST(Rounding, NeedsSketchesToExplainADifference) {
  Bench bench(across(4, {"weight"}));
  for (trace::Trace& rank : bench.run("b").ranks) {
    for (trace::Step& step : rank.steps) {
      for (trace::Record& record : step.records) record.sketch.reset();
    }
  }
  const auto result = bench.check();
  ASSERT_EQ(result.status, Status::kDivergence);
  EXPECT_NE(result.divergence->relation.find("without sketches"), std::string::npos) << result.divergence->relation;
}

TEST(Rounding, ExplainsTheSignOfZeroAndEmptyTensors) {
  Bench bench(across(1, {"weight"}));
  put(bench.run("a"), 0, 1, floats(Channel::kWeight, "fc.bias", {0, 0, 0, 0}));
  put(bench.run("b"), 0, 1, floats(Channel::kWeight, "fc.bias", {0, -0.0F, 0, 0}));
  for (const char* side : {"a", "b"})
    step_at(bench.run(side), 0, 1).records.push_back(floats(Channel::kWeight, "empty", {}, {0, 3}));
  EXPECT_NE(at(bench.run("a"), 0, 1, Channel::kWeight, "fc.bias").digest,
            at(bench.run("b"), 0, 1, Channel::kWeight, "fc.bias").digest);
  EXPECT_TRUE(agrees(bench.check()));
  put(bench.run("b"), 0, 1, floats(Channel::kWeight, "fc.bias", {0, 1e-4F, 0, 0}));
  put(bench.run("a"), 0, 0, floats(Channel::kWeight, "fc.bias", {0, 0, 0, 0}));
  put(bench.run("b"), 0, 0, floats(Channel::kWeight, "fc.bias", {0, 0, 0, 0}));
  put(bench.run("a"), 0, -1, floats(Channel::kWeight, "fc.bias", {0, 0, 0, 0}));
  put(bench.run("b"), 0, -1, floats(Channel::kWeight, "fc.bias", {0, 0, 0, 0}));
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kWeight, "fc.bias", 0))
      << "the rounding of a zero is that of its layer, no more";
}

TEST(Rounding, WorksOnEverySecondStep) {
  Json changes = across(4, kComputed, 13);
  changes["train"]["record"]["every"] = 3;
  EXPECT_TRUE(agrees(Bench(changes).check()));
  Bench bench(changes);
  bench.rerun("b", {.silent_rate = [](auto step, double rate) { return step == 8 ? rate * 1.01 : rate; }});
  EXPECT_EQ(bench.check().divergence.value_or(compare::Divergence{.step = -9}).step, 9);
}

TEST(Rounding, IsInconclusiveOnEmptyTracesAndMissingChannels) {
  Bench empty(across(4));
  for (const char* side : {"a", "b"}) {
    for (trace::Trace& rank : empty.run(side).ranks) rank.steps.clear();
  }
  EXPECT_TRUE(is_inconclusive(empty.check()));
  EXPECT_TRUE(is_inconclusive(Bench(across(4, {"gradient", "ema"})).check(), "'ema'"));
}

}  // namespace
}  // namespace lockstep::test
