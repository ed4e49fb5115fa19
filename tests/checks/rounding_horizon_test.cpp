#include <cmath>

#include "harness/compare/rounding.h"

#include "tests/support/tiny/bench.h"

// Where rounding has consequences that are more than rounding: kinks, and growth beyond what can be told from a fault.

namespace lockstep::test {
namespace {

using trace::Channel;

Json across_steps(std::int64_t steps = 6) {
  return {{"train", {{"batch", {{"global", 24}}}, {"data", {{"size", 96}}}, {"steps", steps}}},
          {"variants", {{"a", {{"world_size", 1}}}, {"b", {{"world_size", 4}}}}},
          {"checks", {{{"that", "rounding"}, {"variants", {"a", "b"}}}}}};
}

/// A bench whose second run is changed by `faults`; both have a last layer that they leave alone.
struct LayeredBench : Bench {
  explicit LayeredBench(const Faults& faults) : Bench(across_steps()) {
    rerun("b", faults);
    for (const char* name : {"a", "b"}) add_last_layer(run(name));
  }
};

/// One layer's gradient jumps on all ranks, as when a rectifier of the layer above changes sides.
Faults kink_at(std::int64_t begin, float size) {
  return {.gradient = [=](auto step, auto& name, auto& gradient) {
    if (step == begin && name == "fc.weight") gradient[3] += size;
  }};
}

TEST(RoundingHorizon, LeavesAKinkUndecided) {
  LayeredBench bench(kink_at(3, 1e-3F));
  EXPECT_TRUE(is_inconclusive(bench.check(), "kink"));
  EXPECT_NE(bench.check().why.find("step 3, gradient fc.weight"), std::string::npos) << bench.check().why;
}

/// A smooth activation has none: the reason that is left is named.
TEST(RoundingHorizon, NamesNoKinkWhereNoActivationHasOne) {
  LayeredBench bench(kink_at(3, 1e-3F));
  for (scenario::Variant& variant : bench.scenario.variants) variant.train.model.kind = recipe::ModelKind::kTransformer;
  EXPECT_TRUE(is_inconclusive(bench.check(), "amplified rounding"));
  EXPECT_EQ(bench.check().why.find("kink"), std::string::npos) << bench.check().why;
  bench.scenario.variants[1].train.model.kind = recipe::ModelKind::kMlp;
  EXPECT_TRUE(is_inconclusive(bench.check(), "kink")) << "one of them may have one";
}

/// The norm over all layers moves every clipped gradient, the last layer's, too.
TEST(RoundingHorizon, ClippingCarriesAKinkIntoAllLayers) {
  LayeredBench bench(kink_at(3, 1e-3F));
  for (const char* name : {"a", "b"}) {
    for (std::int64_t rank = 0; rank < bench.run(name).world_size(); ++rank) {
      const float factor = name[0] == 'a' ? 1 : 0.999F;
      trace::Record clipped = floats(Channel::kGradient, "clipped out.weight", {factor, 2 * factor, 3 * factor, 4});
      step_at(bench.run(name), rank, 3).records.push_back(clipped);
    }
  }
  EXPECT_TRUE(is_inconclusive(bench.check(), "kink"));
}

TEST(RoundingHorizon, KnowsNoKinkBeforeTheWeightsDiffer) {
  LayeredBench bench(kink_at(0, 1e-3F));
  EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kGradient, "fc.weight", 0));
}

TEST(RoundingHorizon, KnowsNoKinkThatMovesEveryGradient) {
  Bench bench(across_steps());
  bench.rerun("b", {.gradient = [](auto step, auto&, auto& gradient) {
                if (step == 3) gradient[3] += 1e-3F;
              }});
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kGradient, "fc.bias", 0));
}

/// Half the bound at one step explains up to eight halves at the next, not twelve.
TEST(RoundingHorizon, AStableTrainingAmplifiesByEightAtMost) {
  const auto bound_at = [](std::int64_t step, const char* name) {
    Bench clean(across_steps());
    const auto& record = at(clean.run("a"), 0, step, Channel::kGradient, name);
    return compare::RoundingBound(clean.run("a"), clean.run("b")).judge(record, record, step, 0)->bound;
  };
  const double least = std::min(bound_at(2, "fc.weight"), bound_at(2, "fc.bias"));
  const auto grown = [least](double times, double before = 1) {
    Bench bench(across_steps());
    bench.rerun("b", {.gradient = [=](auto step, auto&, auto& gradient) {
                  if (step == 2) gradient[3] += static_cast<float>(before * least / 2);
                  if (step == 3) gradient[3] += static_cast<float>(times * least / 2);
                }});
    erase_channel(bench.run("b"), Channel::kGradientLocal);  // whose mean it is not
    return bench.check();
  };
  EXPECT_TRUE(agrees(grown(4)));
  EXPECT_TRUE(diverges_at(grown(4, 0), 3, Channel::kGradient, "fc.bias", 0)) << "nothing was there to amplify";
  EXPECT_TRUE(diverges_at(grown(40), 3, Channel::kGradient, "fc.bias", 0));
}

/// What one step makes of one state is held against the rounding of that step, whatever the steps before were apart.
TEST(RoundingHorizon, OneStepInheritsNothing) {
  Bench bench(across_steps());
  const auto of_one_step = [&] { return compare::RoundingBound::of_one_step(bench.run("a"), bench.run("b")); };
  const auto judged = [&](const compare::RoundingBound& bound, Channel channel) {
    const auto& left = at(bench.run("a"), 0, 3, channel, "fc.bias");
    return *bound.judge(left, at(bench.run("b"), 0, 3, channel, "fc.bias"), 3, 0);
  };
  const compare::Rounding gradient = judged(of_one_step(), Channel::kGradient);
  const compare::Rounding weight = judged(of_one_step(), Channel::kWeight);
  EXPECT_TRUE(gradient.explained() && weight.explained());
  const auto nudge = [](double by) {
    return [by](auto step, auto& name, auto& values) {
      if (step == 3 && name == "fc.bias") values[3] += static_cast<float>(by);
    };
  };
  bench.rerun("b", {.gradient = nudge(1.5 * gradient.bound)});
  EXPECT_TRUE(judged({bench.run("a"), bench.run("b")}, Channel::kGradient).explained());
  EXPECT_FALSE(judged(of_one_step(), Channel::kGradient).explained());
  bench.rerun("b", {.weight = nudge(1.5 * weight.bound)});
  EXPECT_FALSE(judged(of_one_step(), Channel::kWeight).explained());
}

/// What a small update makes of one state is stored a last place apart only where it lay on a tie: here and there.
TEST(RoundingHorizon, OneStepOfASmallUpdateMovesFewLastPlaces) {
  const auto weights = [](std::int64_t step, std::size_t apart) {
    std::vector<float> values(4096);
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (0.1F + 1e-5F * static_cast<float>(i)) * (1 - 1e-5F * static_cast<float>(step));
    for (std::size_t i = 0; i < apart; ++i) values[i * 8] = std::nextafter(values[i * 8], 1.0F);
    return floats(Channel::kWeight, "large.weight", values);
  };
  Bench bench(across_steps());
  for (const char* name : {"a", "b"}) {
    for (const std::int64_t step : {2, 3}) step_at(bench.run(name), 0, step).records.push_back(weights(step, 0));
  }
  const auto bound = compare::RoundingBound::of_one_step(bench.run("a"), bench.run("b"));
  const auto explains = [&](std::size_t apart) {
    return bound.judge(weights(3, 0), weights(3, apart), 3, 0)->explained();
  };
  EXPECT_TRUE(explains(4));
  EXPECT_FALSE(explains(512));
}

TEST(RoundingHorizon, KnowsNoKinkThatMovesTheLossOfItsStep) {
  LayeredBench bench(kink_at(3, 1e-3F));
  for (std::int64_t rank = 0; rank < 4; ++rank) put(bench.run("b"), rank, 3, scalar(Channel::kLoss, "reduced", 0.7F));
  bench.scenario.checks[0].channels = {Channel::kGradient};
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kGradient, "fc.weight", 0));
}

TEST(RoundingHorizon, KnowsNoKinkOfTheLastLayer) {
  Bench bench(across_steps());
  bench.rerun("b", kink_at(3, 1e-3F));
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kGradient, "fc.weight", 0)) << "there is no layer above";
}

TEST(RoundingHorizon, KnowsNoKinkLargerThanASample) {
  LayeredBench bench(kink_at(3, 1));
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kGradient, "fc.weight", 0));
}

TEST(RoundingHorizon, KnowsNoKinkThatIsAFactor) {
  for (const float factor : {-1.0F, 0.0F, 0.99F, 1.01F}) {
    LayeredBench bench({.gradient = [=](auto step, auto& name, auto& gradient) {
      if (step != 3 || name != "fc.weight") return;
      for (float& value : gradient) value *= factor;
    }});
    EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kGradient, "fc.weight", 0)) << factor;
  }
}

/// A gradient times 1.01, and noise at right angles to it. It is a factor up to a quarter of what the factor moves.
TEST(RoundingHorizon, AKinkLeavesAQuarterOfTheChangeBesideAFactor) {
  const auto judged = [](double noise) {
    LayeredBench bench(kink_at(3, 1e-3F));
    const trace::Record& left = at(bench.run("a"), 0, 3, Channel::kGradient, "fc.weight");
    for (trace::Trace& rank : bench.run("b").ranks) {
      trace::Record& right = at(bench.run("b"), rank.rank, 3, Channel::kGradient, "fc.weight");
      for (std::size_t i = 0; i < trace::Sketch::kBuckets; i += 2) {
        const double x = left.sketch->buckets[i], y = left.sketch->buckets[i + 1];
        right.sketch->buckets[i] = 1.01 * x - noise * y;
        right.sketch->buckets[i + 1] = 1.01 * y + noise * x;
      }
    }
    return bench.check();
  };
  EXPECT_TRUE(diverges_at(judged(0.0022), 3, Channel::kGradient, "fc.weight", 0));
  EXPECT_TRUE(is_inconclusive(judged(0.0028), "kink"));
}

TEST(RoundingHorizon, KnowsNoKinkWithoutGradients) {
  LayeredBench bench(kink_at(3, 1e-3F));
  for (const char* run : {"a", "b"}) {
    for (trace::Trace& rank : bench.run(run).ranks) {
      for (trace::Step& step : rank.steps)
        std::erase_if(step.records, [](const trace::Record& record) { return record.channel == Channel::kGradient; });
    }
  }
  bench.scenario.checks[0].channels = {Channel::kWeight};
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kWeight, "fc.weight", 0));
}

TEST(RoundingHorizon, KnowsNoKinkOnSomeRanksOnly) {
  LayeredBench bench(kink_at(3, 1e-3F));
  spoil(bench.run("b"), 2, 3, Channel::kGradient, "fc.weight");
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kGradient, "fc.weight", 0));
}

TEST(RoundingHorizon, KnowsNoKinkInWeightsWhoseGradientIsInOrder) {
  Bench bench(across_steps());
  bench.rerun("b", {.weight = [](auto step, auto& name, auto& weight) {
                if (step == 3 && name == "fc.weight") weight[3] += 1e-3F;
              }});
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kWeight, "fc.weight", 0));
}

/// Differences that grow as they do in a training at the edge of stability, never by more than rounding explains.
TEST(RoundingHorizon, EndsWhereALostSampleWouldNotShow) {
  Bench bench(across_steps(20));
  bench.rerun("b", {.gradient = [](auto step, auto&, auto& gradient) {
                for (float& value : gradient) value *= 1 + std::ldexp(0x1p-20F, static_cast<int>(step));
              }});
  erase_channel(bench.run("b"), Channel::kGradientLocal);  // whose mean it is not
  const auto result = bench.check();
  EXPECT_TRUE(is_inconclusive(result));
  EXPECT_NE(result.why.find("one lost sample"), std::string::npos) << result.why;
}

/// Long before that a small factor would look the same.
TEST(RoundingHorizon, EndsWhereASmallFactorWouldNotShow) {
  const auto judged = [](std::int64_t steps, Channel channel) {
    Bench bench(across_steps(steps));
    bench.rerun("b", {.gradient = [](auto step, auto&, auto& gradient) {
                  for (float& value : gradient) value *= 1 + std::ldexp(0x1p-20F, static_cast<int>(step));
                }});
    erase_channel(bench.run("b"), Channel::kGradientLocal);  // whose mean it is not
    bench.scenario.checks[0].channels = {channel};
    return bench.check();
  };
  for (const Channel channel : {Channel::kGradient, Channel::kWeight}) {
    EXPECT_TRUE(agrees(judged(6, channel)));
    EXPECT_TRUE(is_inconclusive(judged(10, channel), "a wrong factor of 1 + 2^-10")) << name_of(channel);
  }
}

/// What autocast or a compression hook rounds away is rounding, and hides more than float32's does.
TEST(RoundingHorizon, IsThatOfTheArithmeticInTheHeader) {
  const auto judged = [](const std::vector<const char*>& coarse, float size, bool other_ledger = false) {
    Bench bench(across_steps());
    bench.rerun("b", {.gradient = [size](auto, auto&, auto& gradient) {
                  for (float& value : gradient) value *= 1 + size;
                }});
    for (const char* name : coarse) {
      for (trace::Trace& rank : bench.run(name).ranks) rank.header["arithmetic"] = "bfloat16";
    }
    if (other_ledger) put(bench.run("b"), 0, 2, integer("updates", 99));
    return bench.check();
  };
  EXPECT_TRUE(diverges_at(judged({}, 0x1p-9F), 0, Channel::kGradient, "fc.bias", 0));
  EXPECT_TRUE(is_inconclusive(judged({"a", "b"}, 0x1p-9F), "step 0"));
  EXPECT_TRUE(is_inconclusive(judged({"b"}, 0x1p-9F), "step 0")) << "one side is enough";
  EXPECT_TRUE(is_inconclusive(judged({"a", "b"}, 0.5F), "step 0"));
  EXPECT_EQ(judged({"a", "b"}, 0, /*other_ledger=*/true).status, Status::kDivergence) << "counters never round";
}

TEST(RoundingHorizon, InheritsOnlyWhatWasExplained) {
  Bench bench(across_steps(8));
  bench.rerun("b", {.gradient =
                        [](auto, auto&, auto& gradient) {
                          for (float& value : gradient) value *= 4;
                        },
                    .silent_rate = [](auto, double rate) { return rate / 4; }});
  bench.scenario.checks[0].channels = {Channel::kWeight};
  EXPECT_TRUE(agrees(bench.check())) << "four times the gradient at a quarter of the rate";
  bench.rerun("b", {.gradient =
                        [](auto, auto&, auto& gradient) {
                          for (float& value : gradient) value *= 4;
                        },
                    .silent_rate = [](auto step, double rate) { return step == 7 ? rate / 4.02 : rate / 4; }});
  EXPECT_TRUE(diverges_at(bench.check(), 7, Channel::kWeight, "fc.bias", 0))
      << "the unexplained gradients license nothing";
}

TEST(RoundingBound, IsTightAtTheFirstStep) {
  Bench bench(across_steps());
  const compare::RoundingBound bound(bench.run("a"), bench.run("b"));
  const auto& left = at(bench.run("a"), 0, 0, Channel::kGradient, "fc.weight");
  const auto& right = at(bench.run("b"), 0, 0, Channel::kGradient, "fc.weight");
  const auto rounding = bound.judge(left, right, 0, 0);
  ASSERT_TRUE(rounding);
  EXPECT_TRUE(rounding->explained());
  EXPECT_GT(rounding->distance, 0);
  EXPECT_LT(rounding->bound, 0x1p-14 * *left.norm);
}

TEST(RoundingBound, KnowsNothingOfOtherShapesAndIntegers) {
  Bench bench(across_steps());
  const compare::RoundingBound bound(bench.run("a"), bench.run("b"));
  const auto weights = floats(Channel::kWeight, "w", {1, 2});
  EXPECT_FALSE(bound.judge(weights, floats(Channel::kWeight, "w", {1, 2, 3}), 0, 0));
  EXPECT_FALSE(bound.judge(integer("updates", 1), integer("updates", 2), 0, 0));
  EXPECT_FALSE(bound.judge(number("learning_rate", 0.1), number("learning_rate", 0.1000001), 0, 0));
}

}  // namespace
}  // namespace lockstep::test
