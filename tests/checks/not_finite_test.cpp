#include <cmath>
#include <limits>

#include "tests/support/tiny/bench.h"

// NaN and infinity swallow every difference: what is equal from there on proves nothing, in every check that relies on
// it.

namespace lockstep::test {
namespace {

using trace::Channel;

const float kNan = std::nanf("");

/// SGD at rate 1e30: losses and weights overflow at step 1, in every rank of every run alike.
Json overflowing(const Json& check, std::int64_t repeats = 1) {
  return {{"train", {{"optimizer", {{"lr", 1e30}}}}}, {"repeats", repeats}, {"checks", {check}}};
}

Json between(const std::string& kind, const Json& on = Json()) {
  Json check = {{"that", kind}, {"variants", {"a", "b"}}};
  if (!on.is_null()) check["on"] = on;
  return check;
}

/// A fault that would show in any training whose numbers are finite.
const Faults kTwiceAtStep3{.gradient = [](auto step, auto&, auto& gradient) {
  for (float& element : gradient) element *= step == 3 ? 2 : 1;
}};

TEST(NotFinite, HidesWhatFollowsInEveryCheckThatReliesOnIt) {
  const std::pair<Json, const char*> rows[] = {
      {between("equal"), "first at step 1, loss local, rank 0"},
      {between("rounding"), "first at step 1, loss local, rank 0"},
      {between("differs"), "first at step 1, loss local, rank 0"},
      {between("equal", {"gradient"}), "first at step 2, gradient fc.bias, rank 0"},
      {{{"that", "repeatable"}}, "first at step 1, loss local, rank 0"},
      {{{"that", "ranks_agree"}}, "first at step 1, weight fc.bias, rank 1"},
      {{{"that", "ledger"}}, "first at step 1, loss local, rank 0"},
      {{{"that", "reduction"}}, "first at step 2, gradient fc.bias, rank 0"},
  };
  for (const auto& [check, place] : rows) {
    Bench bench(overflowing(check, check["that"] == "repeatable" ? 2 : 1));
    bench.rerun("b", kTwiceAtStep3);
    const auto result = bench.check();
    EXPECT_TRUE(is_inconclusive(result, "NaN or infinity hides every difference")) << check;
    EXPECT_NE(result.why.find(place), std::string::npos) << check << result.why;
    EXPECT_NE(result.next.find("lower the learning rate"), std::string::npos) << check << result.next;
  }
}

TEST(NotFinite, HidesWhatAResumptionRestored) {
  Bench bench({{"train", {{"optimizer", {{"lr", 1e30}}}}},
               {"variants",
                {{"straight", Json::object()},
                 {"half", {{"train", {{"steps", 3}, {"checkpoint", {{"save_after", 3}}}}}}},
                 {"resumed", {{"train", {{"checkpoint", {{"load", {{"from", "half"}}}}}}}}}}},
               {"checks", {{{"that", "resumes"}, {"straight", "straight"}, {"interrupted", "resumed"}}}}});
  bench.run("resumed") = resumed_from(bench.run("straight"), 3, "resumed/0");
  EXPECT_TRUE(is_inconclusive(bench.check(), "first at step 2, "));
}

TEST(NotFinite, HidesNothingThatCameBefore) {
  for (const char* kind : {"equal", "rounding"}) {
    Bench bench(overflowing(between(kind)));
    put(bench.run("b"), 1, 0, floats(Channel::kGradient, "fc.bias", {1, 2, 3, 4}));
    EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kGradient, "fc.bias", 1)) << kind;
  }
  Bench ranks(overflowing({{"that", "ranks_agree"}}));
  spoil(ranks.run("a"), 1, 0, Channel::kWeight, "fc.weight");
  EXPECT_TRUE(diverges_at(ranks.check(), 0, Channel::kWeight, "fc.weight", 1));
}

TEST(NotFinite, IsADifferenceWhereItsBitsAreOthers) {
  Bench bench(overflowing(between("equal")));
  put(bench.run("b"), 0, 2, floats(Channel::kWeight, "fc.bias", {kNan, 0, 0, 0}));
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kWeight, "fc.bias", 0));
}

/// What a training is given and counts does not depend on its weights.
TEST(NotFinite, HidesNoSamples) {
  Bench bench(overflowing(between("equal", {"samples", "input", "ledger", "collective"})));
  EXPECT_FALSE(std::isfinite(*at(bench.run("a"), 0, 2, Channel::kWeight, "fc.bias").norm)) << "nothing overflowed";
  EXPECT_TRUE(agrees(bench.check()));
  EXPECT_TRUE(agrees(Bench(overflowing({{"that", "covers"}})).check()));
}

/// As a GradScaler does: a step whose gradients overflow leaves weights and optimizer state as they are.
TEST(NotFinite, HidesNothingWhereTheUpdateWasSkipped) {
  const Json checks[] = {between("equal"),          between("rounding"),  {{"that", "repeatable"}},
                         {{"that", "ranks_agree"}}, {{"that", "ledger"}}, {{"that", "reduction"}}};
  for (const Json& check : checks) {
    Bench bench({{"repeats", 2}, {"checks", {check}}});
    for (auto& [variant, repeats] : bench.runs) {
      for (trace::RunTrace& run : repeats) {
        for (const std::int64_t rank : {0, 1}) {
          for (const Channel channel : {Channel::kGradientLocal, Channel::kGradient})
            put(run, rank, 2, floats(channel, "fc.bias", {kNan, 0, 0, 0}));
          for (const char* loss : {"local", "reduced"}) put(run, rank, 2, scalar(Channel::kLoss, loss, kNan));
        }
      }
    }
    EXPECT_TRUE(agrees(bench.check())) << check;
  }
}

/// A mask of infinities, which never changes, is no result of anything.
TEST(NotFinite, HidesNothingInABufferThatNeverChanges) {
  const float infinity = std::numeric_limits<float>::infinity();
  Bench bench(Json{{"checks", {between("equal")}}});
  const auto add = [&](std::int64_t step, const std::vector<float>& elements) {
    for (const char* side : {"a", "b"}) {
      for (const std::int64_t rank : {0, 1})
        step_at(bench.run(side), rank, step).records.push_back(floats(Channel::kBuffer, "mask", elements));
    }
  };
  for (const std::int64_t step : {-1, 0, 1, 2}) add(step, {0, -infinity});
  EXPECT_TRUE(agrees(bench.check()));
  add(3, {kNan, -infinity});
  EXPECT_TRUE(is_inconclusive(bench.check(), "first at step 3, buffer mask, rank 0"));
}

/// Running statistics that were loaded as NaN stay NaN, whatever the training does.
TEST(NotFinite, HidesABufferThatBeginsAsNan) {
  const Json on = {"buffer"};
  const Json checks[] = {between("equal", on),
                         between("rounding", on),
                         {{"that", "repeatable"}, {"on", on}},
                         {{"that", "ranks_agree"}, {"on", on}}};
  for (const Json& check : checks) {
    Bench bench({{"repeats", 2}, {"checks", {check}}});
    for (auto& [variant, repeats] : bench.runs) {
      for (trace::RunTrace& run : repeats) {
        for (trace::Trace& rank : run.ranks) {
          for (trace::Step& step : rank.steps)
            step.records.push_back(floats(Channel::kBuffer, "bn.running_mean", {kNan, 1}));
        }
      }
    }
    EXPECT_TRUE(is_inconclusive(bench.check(), "first at step -1, buffer bn.running_mean")) << check;
  }
}

TEST(NotFinite, HidesWhatALedgerCounts) {
  Bench bench(Json{{"checks", {between("equal", {"ledger"})}}});
  for (const char* side : {"a", "b"}) put(bench.run(side), 0, 1, number("learning_rate", kNan));
  EXPECT_TRUE(is_inconclusive(bench.check(), "first at step 1, ledger learning_rate"));
}

TEST(NotFinite, HidesWhatAnOptimizerHoldsBesideFiniteWeights) {
  Bench bench(Json{{"checks", {between("equal")}}});
  for (const char* side : {"a", "b"})
    put(bench.run(side), 0, 1,
        floats(Channel::kOptimizer, "fc.bias.momentum_buffer", {std::numeric_limits<float>::infinity(), 0, 0, 0}));
  EXPECT_TRUE(is_inconclusive(bench.check(), "first at step 1, optimizer fc.bias.momentum_buffer"));
}

/// Equal NaN of two ranks may come of any two shares of the data.
TEST(NotFinite, IsNoSecondRankWithTheSameShare) {
  Bench bench(overflowing({{"that", "ranks_differ"}, {"on", {"gradient.local"}}}));
  EXPECT_TRUE(is_inconclusive(bench.check(), "NaN or infinity hides every difference"));
  at(bench.run("a"), 1, 0, Channel::kGradientLocal, "fc.bias") =
      at(bench.run("a"), 0, 0, Channel::kGradientLocal, "fc.bias");
  at(bench.run("a"), 1, 0, Channel::kGradientLocal, "fc.weight") =
      at(bench.run("a"), 0, 0, Channel::kGradientLocal, "fc.weight");
  EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kGradientLocal, "", 1));
}

TEST(NotFinite, TellsNoFactorOfTwoFirstUpdates) {
  Json check = between("differs");
  check["factor"] = 2;
  Bench bench(Json{{"checks", {check}}});
  for (const char* side : {"a", "b"}) put(bench.run(side), 0, 0, floats(Channel::kWeight, "fc.bias", {kNan, 0, 0, 0}));
  put(bench.run("b"), 0, 0, at(bench.run("a"), 0, 0, Channel::kWeight, "fc.weight"));
  bench.scenario.checks[0].factor = 1;
  EXPECT_TRUE(is_inconclusive(bench.check(), "first at step 0, weight fc.bias"));
}

TEST(NotFinite, IsNotReducedToAFiniteLoss) {
  Bench bench(Json{{"checks", {{{"that", "ledger"}}}}});
  put(bench.run("a"), 0, 2, scalar(Channel::kLoss, "local", kNan));
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kLoss, "reduced", 0));
}

}  // namespace
}  // namespace lockstep::test
