#include "harness/checks/steep_updates.h"

#include <algorithm>
#include <cmath>

#include "tests/support/tiny/bench.h"

// Updates that divide by a root: when another weight is rounding, and when it is not.

namespace lockstep::test {
namespace {

using trace::Channel;

constexpr double kRate = 0x1p-7, kFirst = 0.875, kSecond = 0.9375, kEps = 1e-8;
constexpr std::int64_t kStep = 2;

/// "a" on one rank, "b" on two.
Json across() {
  return {{"train", {{"batch", {{"global", 24}}}, {"data", {{"size", 96}}}, {"steps", 4}}},
          {"variants", {{"a", {{"world_size", 1}}}, {"b", {{"world_size", 2}}}}},
          {"checks", {{{"that", "rounding"}, {"variants", {"a", "b"}}}}}};
}

/// Gives the last element of the bias a gradient of `rounding` alone.
Faults rounds(float rounding) {
  return {.gradient = [=](auto step, auto& name, auto& gradient) {
    if (name == "fc.bias") gradient[3] = rounding * static_cast<float>(step + 1);
  }};
}

/// Puts Adam's states and weights in the place of SGD's. `change`: what else moves a weight, after the formula.
using Change = std::function<void(std::int64_t step, std::vector<float>& weight)>;
void train_with_adam(Bench& bench, const std::string& variant, double eps = kEps, const Change& change = nullptr,
                     float first = 0.5F) {
  auto& variants = bench.scenario.variants;
  const auto named = std::find_if(variants.begin(), variants.end(), [&](auto& one) { return one.name == variant; });
  recipe::OptimizerChoice& optimizer = named->train.optimizer;
  optimizer.kind = recipe::OptimizerKind::kAdam;
  optimizer.options = {
      {"lr", kRate}, {"betas", {kFirst, kSecond}}, {"eps", eps}, {"weight_decay", 0.0}, {"groups", Json::array()}};
  trace::RunTrace& run = bench.run(variant);
  erase_channel(run, Channel::kOptimizer);
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const auto place = static_cast<std::int64_t>(rank);
    const std::string name = "fc.bias";
    std::vector<float> weight(4, first), mean(4), square(4);
    put(run, place, -1, floats(Channel::kWeight, name, weight));
    for (std::int64_t step = 0; step < 4; ++step) {
      const std::vector<double> gradient = at(run, place, step, Channel::kGradient, name).elements;
      const auto count = static_cast<double>(step + 1);
      for (std::size_t i = 0; i < 4; ++i) {
        mean[i] = static_cast<float>(kFirst * mean[i] + (1 - kFirst) * gradient[i]);
        square[i] = static_cast<float>(kSecond * square[i] + (1 - kSecond) * gradient[i] * gradient[i]);
        const double root = std::sqrt(square[i] / (1 - std::pow(kSecond, count)));
        weight[i] -= static_cast<float>(kRate * mean[i] / (1 - std::pow(kFirst, count)) / (root + eps));
      }
      if (change) change(step, weight);
      put(run, place, step, floats(Channel::kWeight, name, weight));
      put(run, place, step, number("learning_rate", kRate));
      auto& records = step_at(run, place, step).records;
      records.push_back(floats(Channel::kOptimizer, name + ".exp_avg", mean));
      records.push_back(floats(Channel::kOptimizer, name + ".exp_avg_sq", square));
      records.push_back(scalar(Channel::kOptimizer, name + ".step", static_cast<float>(count)));
    }
    for (std::int64_t step = -1; step < 4; ++step) erase(run, place, step, Channel::kWeight, "fc.weight");
    for (std::int64_t step = 0; step < 4; ++step) erase(run, place, step, Channel::kGradient, "fc.weight");
  }
}

struct Told {
  bool beyond = false;  ///< the bound alone does not explain it
  bool explained = false;
  std::string says;
};

Told ask(const Bench& bench) {
  const trace::RunTrace &a = bench.runs.at("a")[0], &b = bench.runs.at("b")[0];
  std::map<std::string, std::vector<const trace::RunTrace*>> traces{{"a", {&a}}, {"b", {&b}}};
  const checks::CheckInput input{.scenario = bench.scenario, .spec = bench.scenario.checks[0], .traces = traces};
  const compare::RoundingBound bound(a, b);
  const trace::Record &left = *a.ranks[0].find(kStep, Channel::kWeight, "fc.bias"),
                      &right = *b.ranks[0].find(kStep, Channel::kWeight, "fc.bias");
  checks::SteepUpdates steep(a, b, input);
  Told told{.beyond = !bound.judge(left, right, kStep, 0)->explained(),
            .explained = steep.explain(bound, left, right, kStep)};
  told.says = steep.says();
  return told;
}

Told ask_with(float rounding, const Change& change = nullptr, double eps = kEps) {
  Bench bench(across());
  bench.rerun("a", rounds(1e-9F));
  bench.rerun("b", rounds(rounding));
  train_with_adam(bench, "a");
  train_with_adam(bench, "b", eps, change);
  return ask(bench);
}

TEST(SteepUpdates, AGradientOfRoundingMakesAnyUpdate) {
  const Told told = ask_with(-3e-9F);
  EXPECT_TRUE(told.beyond);
  EXPECT_TRUE(told.explained);
  EXPECT_EQ(told.says.find("the updates of 1 weight (fc.bias) were not compared"), 0U) << told.says;
}

TEST(SteepUpdates, EqualGradientsExplainNothing) {
  Bench bench(across());
  bench.rerun("a", rounds(1e-9F));
  for (std::int64_t step = 0; step < 4; ++step) {
    const trace::Record gradient = at(bench.run("a"), 0, step, Channel::kGradient, "fc.bias");
    for (const std::int64_t rank : {0, 1}) put(bench.run("b"), rank, step, gradient);
  }
  train_with_adam(bench, "a");
  train_with_adam(bench, "b", kEps, nullptr, /*first=*/0.501F);
  const Told told = ask(bench);
  EXPECT_TRUE(told.beyond);
  EXPECT_FALSE(told.explained);
  EXPECT_EQ(told.says, "");
}

TEST(SteepUpdates, AnUpdateThatIsNotItsFormulasIsAMistake) {
  const Told told = ask_with(-3e-9F, [](auto step, auto& weight) { weight[1] += step == kStep ? 1e-3F : 0; });
  EXPECT_TRUE(told.beyond);
  EXPECT_FALSE(told.explained);
}

/// The laws judge finite elements, and this one is not among them.
TEST(SteepUpdates, ANumberThatIsNotFiniteIsNoRounding) {
  const Told told = ask_with(-3e-9F, [](auto step, auto& weight) {
    if (step == kStep) weight[1] = NAN;
  });
  EXPECT_TRUE(told.beyond);
  EXPECT_FALSE(told.explained);
}

TEST(SteepUpdates, AnotherHyperparameterIsAMistake) {
  const Told told = ask_with(-3e-9F, nullptr, 1e-3);
  EXPECT_TRUE(told.beyond);
  EXPECT_FALSE(told.explained);
}

/// A gradient that is beyond its own bound makes no rounding of what follows.
TEST(SteepUpdates, AnotherGradientIsAMistake) {
  const Told told = ask_with(-0.25F);
  EXPECT_TRUE(told.beyond);
  EXPECT_FALSE(told.explained);
}

}  // namespace
}  // namespace lockstep::test
