// What is not there, or moves although nothing moves it: gradients, averages, updates, numbers.
#include <cmath>

#include <gtest/gtest.h>

#include "harness/laws/law.h"

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;

/// A run of one rank, of which each step has these records.
trace::RunTrace run_of(const std::vector<std::vector<Record>>& steps) {
  trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(1)};
  for (std::size_t step = 0; step < steps.size(); ++step)
    run.ranks[0].steps.push_back({.step = static_cast<std::int64_t>(step), .records = steps[step]});
  return run;
}

scenario::Promises promising(const std::vector<std::string>& channels) {
  scenario::Promises promises{.world_size = 1};
  promises.train.record = {.channels = channels, .every = 1};
  promises.train.optimizer = {recipe::OptimizerKind::kSgd,
                              {{"lr", 0.1},
                               {"momentum", 0.0},
                               {"dampening", 0.0},
                               {"weight_decay", 0.0},
                               {"nesterov", false},
                               {"groups", Json::array()}}};
  return promises;
}

Record weight(float value) { return test::floats(Channel::kWeight, "w", {value, 2}); }

TEST(Backward, AParameterOnWhichTheLossDependsHasAGradient) {
  const auto judged = [](double slope, std::int64_t accumulation) {
    scenario::Promises promises = promising({"gradient.local", "ledger"});
    promises.train.batch.accumulation = accumulation;
    return ask(law_named("backward"),
               run_of({{test::number("seen.slope w", slope), test::number("seen.slope_error w", 1e-9),
                        test::number("seen.slope_rounding w", 1e-9)}}),
               promises);
  };
  const Outcome lacks = judged(0.5, 1);
  ASSERT_TRUE(lacks.broken);
  EXPECT_EQ(lacks.broken->at.tensor, "w");
  EXPECT_FALSE(judged(0, 1).broken) << "it takes no part";
  EXPECT_FALSE(judged(0.5, 2).broken) << "it may take part in the first micro-batch alone";
}

TEST(Average, EachWeightHasOneAfterTheFirstUpdate) {
  scenario::Promises promises = promising({"weight", "ema"});
  promises.train.ema_decay = 0.5;
  const Record average = test::floats(Channel::kEma, "w", {1, 2});
  const auto judged = [&](const std::vector<Record>& second) {
    return ask(law_named("average"), run_of({{weight(1)}, second, {weight(1), average}}), promises);
  };
  EXPECT_FALSE(judged({weight(1), average}).broken);
  const Outcome late = judged({weight(1)});
  ASSERT_TRUE(late.broken);
  EXPECT_EQ(late.broken->at.step, 1);
  EXPECT_EQ(late.broken->at.channel, Channel::kEma);
}

TEST(Update, AWeightStaysWithoutAGradientAndInASkippedStep) {
  const scenario::Promises promises = promising({"weight", "gradient", "ledger"});
  const Record gradient = test::floats(Channel::kGradient, "w", {0, 0}), rate = test::number("learning_rate", 0.1);
  const auto judged = [&](const std::vector<Record>& second) {
    return ask(law_named("update"), run_of({{weight(1), gradient, rate, test::integer("skipped", 0)}, second}),
               promises);
  };
  const auto moves_at = [](const Outcome& outcome) { return outcome.broken ? outcome.broken->at.step : -1; };
  EXPECT_EQ(moves_at(judged({weight(1), rate})), -1);
  EXPECT_EQ(moves_at(judged({weight(0.9F), rate})), 1) << "it has no gradient";
  EXPECT_EQ(moves_at(judged({weight(1), gradient, rate, test::integer("skipped", 1)})), -1);
  EXPECT_EQ(moves_at(judged({weight(0.9F), gradient, rate, test::integer("skipped", 1)})), 1);
}

TEST(Finite, MetricsAreUnlessTheRecipeMayDiverge) {
  scenario::Promises promises = promising({"metric"});
  const auto judged = [&](double loss) {
    Record metric = test::number("loss", loss);
    metric.channel = Channel::kMetric;
    return ask(law_named("finite"), run_of({{metric}}), promises);
  };
  EXPECT_TRUE(judged(1).holds());
  EXPECT_TRUE(judged(std::nan("")).broken);
  const Law& finite = law_named("finite");
  EXPECT_EQ(finite.unasked(run_of({}), promises), "");
  promises.train.may_be_nan = true;
  EXPECT_EQ(finite.unasked(run_of({}), promises), "the recipe may diverge");
}

}  // namespace
}  // namespace lockstep::laws
