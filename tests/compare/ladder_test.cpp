// Rounding shrinks when everything is computed in float64; a mistake stays.
#include "harness/compare/ladder.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/support/tiny/bench.h"

namespace lockstep::compare {
namespace {

using trace::Channel;

TEST(Ladder, TellsRoundingFromMistakes) {
  const auto says = [](double in_float32, double in_float64) {
    return Ladder{.in_float32 = in_float32, .in_float64 = in_float64}.says();
  };
  EXPECT_EQ(says(0x1p-24, 0x1p-53), Ladder::Says::kRounding);
  EXPECT_EQ(says(5e-3, 1e-13), Ladder::Says::kRounding) << "a kink";
  EXPECT_EQ(says(1e-7, 0), Ladder::Says::kRounding);
  EXPECT_EQ(says(0x1p-11, 0x1p-11), Ladder::Says::kMistake);
  EXPECT_EQ(says(0x1p-21, 0x1p-21), Ladder::Says::kMistake) << "as small as rounding";
  EXPECT_EQ(says(0x1p-11, 0x1p-17), Ladder::Says::kMistake) << "a sixty-fourth stays";
  EXPECT_EQ(says(0x1p-11, 0x1p-18), Ladder::Says::kNothing);
  EXPECT_EQ(says(1e-3, 1e-6), Ladder::Says::kNothing);
  EXPECT_EQ(says(3.3e36, 0.0096), Ladder::Says::kNothing) << "a bit of an exponent";
  EXPECT_EQ(says(6.9e34, 0.0002), Ladder::Says::kNothing) << "a bit of an exponent";
  EXPECT_EQ(says(1, 1e-10), Ladder::Says::kNothing) << "one side is far larger than the other";
  EXPECT_EQ((Ladder{.in_float32 = 1, .in_float64 = 1e-10, .may_be_whole = true}.says()), Ladder::Says::kRounding);
  EXPECT_EQ(says(0.4, 1e-6), Ladder::Says::kNothing) << "more than rounding in float32 is believed to grow to";
  EXPECT_EQ(says(0, 1), Ladder::Says::kNothing);
  EXPECT_EQ(says(std::numeric_limits<double>::quiet_NaN(), 0), Ladder::Says::kNothing);
  EXPECT_EQ(says(1, std::numeric_limits<double>::infinity()), Ladder::Says::kNothing);
}

TEST(Ladder, ShowsBothRungs) {
  const std::string text = Ladder{.in_float32 = 0x1p-24, .in_float64 = 0x1p-53}.text();
  EXPECT_EQ(text, "the difference is 6e-08 of the layer's scale in float32 and 1.1e-16 in float64, 2^29 times less");
  EXPECT_EQ((Ladder{.in_float32 = 0.5, .in_float64 = 1}.text()),
            "the difference is 0.5 of the layer's scale in float32 and 1 in float64, 2^1 times as much");
  EXPECT_EQ((Ladder{.in_float32 = 1, .in_float64 = 0}.text()),
            "the difference is 1 of the layer's scale in float32 and 0 in float64");
}

Json pair() { return {{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}}; }

/// Two tiny trainings, whose gradients are apart by these factors in either precision.
Comparison judged(float in_float32, double in_float64, const std::string& arithmetic = "",
                  std::string* obstacle = nullptr) {
  const auto scaled = [](double by) {
    return test::Faults{.gradient = [by](auto, auto&, auto& gradient) {
      for (float& value : gradient) value = static_cast<float>(value * (1 + by));
    }};
  };
  test::Bench low(pair()), high(pair());
  low.rerun("b", scaled(in_float32));
  high.rerun("a", {});
  high.rerun("b", scaled(in_float64));
  if (!arithmetic.empty()) high.run("a").ranks[0].header["arithmetic"] = arithmetic;
  const PrecisionLadder ladder(low.run("a"), low.run("b"), high.run("a"), high.run("b"));
  if (obstacle != nullptr) *obstacle = ladder.obstacle();
  return ladder.judge({Channel::kGradient});
}

TEST(PrecisionLadder, GoesOverEveryRecord) {
  EXPECT_TRUE(judged(0x1p-10F, 0x1p-10).first) << "as large in both: a mistake";
  EXPECT_TRUE(judged(0, 0x1p-10).first) << "a mistake that float32 does not show";
  const Comparison clean = judged(0, 0), rounded = judged(0x1p-18F, 0);
  EXPECT_GT(clean.compared, 0U);
  EXPECT_FALSE(clean.first);
  EXPECT_FALSE(rounded.first);
}

/// A run whose tensors say that they are float64.
void widen(trace::RunTrace& run) {
  for (trace::Trace& rank : run.ranks) {
    for (trace::Step& step : rank.steps) {
      for (trace::Record& record : step.records) {
        if (record.dtype == trace::DType::kFloat32) record.dtype = trace::DType::kFloat64;
      }
    }
  }
}

/// Of "b" in either precision, gradients are apart by rounding, and by `mistake` too from step 2 on.
std::optional<Divergence> first_mistake(double mistake, const char* tensor) {
  const auto apart = [&](double rounding) {
    return test::Faults{.gradient = [=](std::int64_t step, const std::string& name, std::vector<float>& gradient) {
      const double by = rounding + (step >= 2 && name == tensor ? mistake : 0);
      for (float& value : gradient) value = static_cast<float>(value * (1 + by));
    }};
  };
  test::Bench low(pair()), high(pair());
  low.rerun("b", apart(0x1p-20));
  high.rerun("b", apart(0));
  for (const char* name : {"a", "b"}) widen(high.run(name));
  const PrecisionLadder ladder(low.run("a"), low.run("b"), high.run("a"), high.run("b"));
  return ladder.first_mistake({Channel::kGradient});
}

TEST(PrecisionLadder, FindsAMistakeBehindRounding) {
  EXPECT_FALSE(first_mistake(0, "fc.bias"));
  for (const double mistake : {0x1p-18, 0x1p-10, 2.0}) {
    for (const char* tensor : {"fc.weight", "fc.bias"}) {
      const auto found = first_mistake(mistake, tensor);
      ASSERT_TRUE(found) << mistake << " of " << tensor;
      EXPECT_EQ(found->step, 2);
      EXPECT_EQ(found->tensor, tensor);
    }
  }
}

/// Runs of which weights are NaN from step 2 on, in these precisions and on these sides.
struct Lost {
  test::Bench low{pair()}, high{pair()};

  Lost(const std::vector<std::string>& in_float32, const std::vector<std::string>& in_float64) {
    for (const char* name : {"a", "b"}) widen(high.run(name));
    for (const auto& [bench, sides] : {std::pair(&low, in_float32), std::pair(&high, in_float64)}) {
      for (const std::string& side : sides) {
        for (const std::int64_t step : {2, 3}) {
          for (const std::size_t rank : {0, 1})
            lose(test::at(bench->run(side), rank, step, Channel::kWeight, "fc.bias"));
        }
      }
    }
  }

  static void lose(trace::Record& record) {
    record.norm = record.max_abs = std::numeric_limits<double>::quiet_NaN();
    record.sketch->norm = *record.norm;
    record.sketch->buckets.fill(*record.norm);
    record.digest.low ^= 1;
  }

  std::int64_t until() { return comparable_until(low.run("a"), low.run("b"), high.run("a"), high.run("b")); }

  std::optional<Divergence> mistake() {
    const PrecisionLadder ladder(low.run("a"), low.run("b"), high.run("a"), high.run("b"));
    return ladder.first_mistake({Channel::kWeight}, {.end_step = until()});
  }
};

TEST(PrecisionLadder, OneSideThatIsLostAloneIsAMistake) {
  for (const char* side : {"a", "b"}) {
    Lost one({side}, {side});
    EXPECT_EQ(one.until(), 3);
    const auto found = one.mistake();
    ASSERT_TRUE(found) << side;
    EXPECT_EQ(found->step, 2);
    EXPECT_EQ(found->tensor, "fc.bias");
  }
}

TEST(PrecisionLadder, OneSideMayBeLostLaterInOnePrecision) {
  Lost later({"b"}, {"b"});
  for (const std::size_t rank : {0, 1})
    test::put(later.high.run("b"), rank, 2, test::at(later.high.run("a"), rank, 2, Channel::kWeight, "fc.bias"));
  EXPECT_EQ(later.until(), 4);
}

TEST(PrecisionLadder, WhatIsLostOtherwiseHidesTheRest) {
  EXPECT_EQ(Lost({}, {}).until(), kNoStep);
  using Sides = std::vector<std::string>;
  for (const auto& [in_float32, in_float64] :
       {std::pair<Sides, Sides>{{"a", "b"}, {"a", "b"}}, {{"b"}, {}}, {{}, {"b"}}, {{"a"}, {"b"}}}) {
    Lost lost(in_float32, in_float64);
    EXPECT_EQ(lost.until(), 2);
    EXPECT_FALSE(lost.mistake());
  }
}

/// In float32 an element becomes huge, in float64 it becomes zero: however much the difference shrinks, it is none of
/// rounding.
TEST(PrecisionLadder, TakesNoFlippedExponentForRounding) {
  for (const float before : {1.0F, 1e-9F}) {
    test::Bench low(pair()), high(pair());
    const auto hold = [&](test::Bench& bench, const char* side, float element) {
      test::put(bench.run(side), 1, 3, test::floats(Channel::kWeight, "fc.bias", {element, 1, 1, 1}));
    };
    hold(low, "a", before);
    hold(low, "b", before * 0x1p120F);
    hold(high, "a", before);
    hold(high, "b", 0);
    for (const char* name : {"a", "b"}) widen(high.run(name));
    const PrecisionLadder ladder(low.run("a"), low.run("b"), high.run("a"), high.run("b"));
    const auto rungs =
        ladder.at({.step = 3, .channel = Channel::kWeight, .tensor = "fc.bias", .left_rank = 1, .right_rank = 1});
    ASSERT_TRUE(rungs);
    EXPECT_NE(rungs->says(), Ladder::Says::kRounding) << rungs->text();
    const auto first = ladder.judge({Channel::kWeight}).first;
    ASSERT_TRUE(first) << before;
    EXPECT_EQ(first->place_and_rank(), "step 3, weight fc.bias, rank 1");
  }
}

/// A step may amplify rounding until no digit is left in float32. Both sides are of one size then.
TEST(PrecisionLadder, TakesAmplifiedRoundingForRounding) {
  for (const bool is_one_size : {true, false}) {
    test::Bench low(pair()), high(pair());
    const auto hold = [&](test::Bench& bench, const char* side, const std::vector<float>& gradient) {
      for (const std::size_t rank : {0, 1})
        test::put(bench.run(side), rank, 3, test::floats(Channel::kGradient, "fc.bias", gradient));
    };
    hold(low, "a", {1, -2, 3, 1});
    hold(low, "b", is_one_size ? std::vector<float>{-2, 1, 1, 3} : std::vector<float>{-8, 1, 1, 3});
    hold(high, "a", {1, -2, 3, 1e-3F});
    hold(high, "b", {1, -2, 3, 1.0001e-3F});
    for (const char* name : {"a", "b"}) widen(high.run(name));
    const PrecisionLadder ladder(low.run("a"), low.run("b"), high.run("a"), high.run("b"));
    const auto rungs = ladder.at({.step = 3, .channel = Channel::kGradient, .tensor = "fc.bias"});
    ASSERT_TRUE(rungs);
    EXPECT_GT(rungs->in_float32, 0.5);
    EXPECT_EQ(rungs->says() == Ladder::Says::kRounding, is_one_size) << rungs->text();
    EXPECT_EQ(ladder.judge({Channel::kGradient}).first.has_value(), !is_one_size);
  }
}

TEST(PrecisionLadder, KnowsWhereFloat64ProvesNothing) {
  std::string obstacle = "?";
  judged(0, 0, "", &obstacle);
  EXPECT_EQ(obstacle, "");
  judged(0, 0, "float16", &obstacle);
  EXPECT_NE(obstacle.find("16 bits"), std::string::npos) << obstacle;
  judged(0, std::numeric_limits<double>::quiet_NaN(), "", &obstacle);
  EXPECT_NE(obstacle.find("NaN"), std::string::npos) << obstacle;
}

/// By one bucket, so that the norms are alike.
TEST(PrecisionLadder, ADifferenceOfTwoToTheMinusFourteenIsSlight) {
  const auto is_slight = [](double part) {
    test::Bench bench(pair());
    const Location place{.step = 2, .channel = Channel::kGradient, .tensor = "fc.weight"};
    trace::Record& record = test::at(bench.run("b"), 0, place.step, place.channel, place.tensor);
    record.sketch->buckets[3] += part * laws::Scales(bench.run("a")).largest(record, place.step);
    return differ_slightly(bench.run("a"), bench.run("b"), place);
  };
  EXPECT_TRUE(is_slight(0.9 * 0x1p-14));
  EXPECT_FALSE(is_slight(1.1 * 0x1p-14));
}

TEST(PrecisionLadder, MeasuresOnePlace) {
  test::Bench low(pair()), high(pair());
  test::put(low.run("b"), 1, 2, test::floats(Channel::kGradient, "fc.bias", {1, 2, 3, 4}));
  const PrecisionLadder ladder(low.run("a"), low.run("b"), high.run("a"), high.run("b"));
  const Location place{.step = 2, .channel = Channel::kGradient, .tensor = "fc.bias", .left_rank = 0, .right_rank = 1};
  const auto rungs = ladder.at(place);
  ASSERT_TRUE(rungs);
  EXPECT_GT(rungs->in_float32, 1e-2);
  EXPECT_LT(rungs->in_float64, 1e-5);
  EXPECT_FALSE(ladder.at({.step = 99, .channel = Channel::kGradient, .tensor = "fc.bias"}));
  EXPECT_FALSE(ladder.at({.step = 2, .channel = Channel::kSamples, .tensor = "ids"}));
}

}  // namespace
}  // namespace lockstep::compare
