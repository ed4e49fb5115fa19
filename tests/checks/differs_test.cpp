#include <cmath>

#include "tests/support/tiny/bench.h"

// Check "differs": the negative control, with and without a factor.

namespace lockstep::test {
namespace {

using trace::Channel;

Json control(const Json& b, const Json& extra = Json::object()) {
  Json check = {{"that", "differs"}, {"variants", {"a", "b"}}};
  check.update(extra);
  return {{"variants", {{"a", Json::object()}, {"b", b}}}, {"checks", {check}}};
}

Json with_rate(double rate) { return {{"train", {{"optimizer", {{"lr", rate}}}}}}; }

TEST(Differs, HoldsWhenTheVariantsDo) { EXPECT_TRUE(agrees(Bench(control(with_rate(0.2))).check())); }

TEST(Differs, SeesASmallButRealDifference) {
  EXPECT_TRUE(agrees(Bench(control(with_rate(0.1001), {{"on", {"weight"}}})).check()));
}

TEST(Differs, FailsOnEqualRuns) {
  const auto result = Bench(control(Json::object())).check();
  EXPECT_EQ(result.status, Status::kDivergence);
  EXPECT_NE(result.why.find("but must differ"), std::string::npos) << result.why;
}

TEST(Differs, FailsOnRoundingAlone) {
  const auto result = Bench(control({{"world_size", 4}}, {{"on", {"gradient", "weight"}}})).check();
  EXPECT_EQ(result.status, Status::kDivergence);
  EXPECT_GT(result.compared, 0U);
}

TEST(Differs, FailsWhenOneOfSeveralIsEqual) {
  Json changes = control(with_rate(0.2));
  changes["variants"]["c"] = Json::object();
  changes["checks"][0]["variants"] = {"a", "b", "c"};
  const auto result = Bench(changes).check();
  EXPECT_EQ(result.status, Status::kDivergence);
  EXPECT_NE(result.why.find("c/0"), std::string::npos) << result.why;
}

TEST(Differs, IsNotFooledByAnotherNumberOfSteps) {
  const Json longer = {{"train", {{"steps", 6}}}};
  EXPECT_EQ(Bench(control(longer)).check().status, Status::kDivergence) << "longer, and equal as far as both go";
  const Json seldom = {{"train", {{"record", {{"every", 2}}}}}};
  EXPECT_EQ(Bench(control(seldom)).check().status, Status::kDivergence) << "equal where both record";
}

/// A variant "b" that goes on from the third update of "a".
Json resumed_on(const Json& on, const Json& train = Json::object()) {
  Json changes = control({{"train", {{"checkpoint", {{"load", {{"from", "half"}}}}}}}}, on);
  changes["variants"]["half"] = {{"train", {{"steps", 3}, {"checkpoint", {{"save_after", 3}}}}}};
  changes["train"] = train;
  return changes;
}

/// The first step of a resumed run holds its state alone: that it lacks a loss there is no difference.
TEST(Differs, IsNotFooledByWhatAResumedRunLacks) {
  for (const Json& on : {Json::object(), Json{{"on", {"loss", "weight"}}}}) {
    for (const bool is_reference : {false, true}) {
      Bench bench(resumed_on(on));
      bench.run("b") = resumed_from(bench.run("a"), 3, "b/0");
      ASSERT_EQ(bench.run("b").ranks[0].steps.front().find(Channel::kLoss, "reduced"), nullptr);
      if (is_reference) std::swap(bench.scenario.checks[0].variants[0], bench.scenario.checks[0].variants[1]);
      const auto result = bench.check();
      EXPECT_EQ(result.status, Status::kDivergence) << on;
      EXPECT_NE(result.why.find("but must differ"), std::string::npos) << result.why;
      put(bench.run("b"), 0, 3, floats(Channel::kWeight, "fc.bias", {1, 2, 3, 4}));
      EXPECT_TRUE(agrees(bench.check())) << on;
    }
  }
}

TEST(Differs, IsNotFooledByWhatOneRankLacks) {
  for (const char* side : {"a", "b"}) {
    Bench bench(control(Json::object()));
    erase(bench.run(side), 1, 2, Channel::kGradient, "fc.bias");
    EXPECT_TRUE(is_inconclusive(bench.check(), "lacks it on some ranks only")) << side;
  }
}

TEST(Differs, IsInconclusiveOnNanThatWasResumed) {
  Bench bench(resumed_on(Json::object(), {{"optimizer", {{"lr", 1e30}}}}));
  bench.run("b") = resumed_from(bench.run("a"), 3, "b/0");
  EXPECT_TRUE(is_inconclusive(bench.check(), "NaN or infinity hides every difference"));
}

TEST(Differs, IsInconclusiveWithoutACommonStep) {
  Bench bench(control(with_rate(0.2)));
  for (trace::Trace& rank : bench.run("b").ranks) rank.steps.clear();
  EXPECT_TRUE(is_inconclusive(bench.check()));
}

TEST(Differs, IsInconclusiveOnNanAgainstNan) {
  const float nan = std::nanf("");
  Bench bench(control({{"world_size", 4}}, {{"on", {"weight"}}}));
  put(bench.run("a"), 0, -1, floats(Channel::kWeight, "fc.bias", {nan, 0, 0, 0}));
  put(bench.run("b"), 0, -1, floats(Channel::kWeight, "fc.bias", {0, nan, 0, 0}));
  EXPECT_TRUE(is_inconclusive(bench.check(), "NaN"));
}

TEST(Differs, IsInconclusiveOnAKink) {
  Bench bench(control({{"world_size", 4}}, {{"on", {"gradient"}}}));
  bench.rerun("b", {.gradient = [](auto step, auto& name, auto& gradient) {
                if (step == 2 && name == "fc.weight") gradient[0] += 1e-3F;
              }});
  for (const char* run : {"a", "b"}) add_last_layer(bench.run(run));
  EXPECT_TRUE(is_inconclusive(bench.check(), "kink"));
}

TEST(DiffersByFactor, HoldsForTheFactorOfTheRate) {
  EXPECT_TRUE(agrees(Bench(control(with_rate(0.4), {{"factor", 4}})).check()));
  Json sum = {{"train", {{"ddp", {{"average", false}}}}}};
  EXPECT_TRUE(agrees(Bench(control(sum, {{"factor", 2}})).check()));
}

TEST(DiffersByFactor, NamesTheTensorWhoseUpdateDoesNotFollow) {
  const auto result = Bench(control(with_rate(0.4), {{"factor", 3.99}})).check();
  ASSERT_TRUE(diverges_at(result, 0, Channel::kWeight, "fc.bias", 0));
  EXPECT_NE(result.divergence->actual.find("x, residual "), std::string::npos) << result.divergence->actual;
  Bench one(control(with_rate(0.4), {{"factor", 4}}));
  one.rerun("b", {.weight = [](auto step, auto& name, auto& weight) {
              if (step == 0 && name == "fc.weight") weight[9] += 1e-4F;
            }});
  EXPECT_TRUE(diverges_at(one.check(), 0, Channel::kWeight, "fc.weight", 0));
}

/// It compares first updates, and no gradients.
TEST(DiffersByFactor, SaysOnlyWhatWasCompared) {
  const auto result = Bench(control(with_rate(0.4), {{"factor", 3.99}})).check();
  ASSERT_TRUE(result.divergence);
  EXPECT_EQ(result.divergence->cause.find("the first updates have another ratio"), 0U) << result.divergence->cause;
  compare::Divergence divergence = *result.divergence;
  divergence.deny_rounding();  // as control runs do
  EXPECT_EQ(divergence.cause, result.divergence->cause);
}

TEST(DiffersByFactor, SeesAParameterThatOneSideLacks) {
  for (const char* side : {"a", "b"}) {
    Bench bench(control(with_rate(0.4), {{"factor", 4}}));
    for (const std::int64_t step : {-1, 0}) erase(bench.run(side), 0, step, Channel::kWeight, "fc.weight");
    EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kWeight, "fc.weight", 0)) << side;
  }
}

TEST(DiffersByFactor, SeesNan) {
  Bench bench(control(with_rate(0.4), {{"factor", 4}}));
  put(bench.run("b"), 0, 0, floats(Channel::kWeight, "fc.bias", {std::nanf(""), 0, 0, 0}));
  EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kWeight, "fc.bias", 0));
}

TEST(DiffersByFactor, IsInconclusiveWhenTheUpdatesAreZero) {
  Json changes = control(Json::object(), {{"factor", 4}});
  changes["train"]["optimizer"]["lr"] = 0;
  EXPECT_TRUE(is_inconclusive(Bench(changes).check())) << "4 x 0 = 0 proves nothing";
}

TEST(DiffersByFactor, IsInconclusiveWithoutInitialWeights) {
  Bench bench(control(with_rate(0.4), {{"factor", 4}}));
  for (const char* side : {"a", "b"}) erase_channel(bench.run(side), Channel::kWeight);
  EXPECT_TRUE(is_inconclusive(bench.check()));
}

}  // namespace
}  // namespace lockstep::test
