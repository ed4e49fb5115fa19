#include "harness/laws/explanation.h"

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

const Explanation kDecay{"opt.decay_scale", "decay fits", 0.1, 0.001, 0.5};
const Explanation kRate{"opt.other_rate", "another rate fits", 2, 0.01, 0.5};

std::string named(const std::vector<std::optional<std::vector<Explanation>>>& breaches) {
  Explanations all;
  for (const auto& breach : breaches) all.narrow(breach);
  Breach breach{.at = {.step = 0, .channel = trace::Channel::kWeight, .tensor = "w", .rank = 0}};
  all.name(breach);
  return breach.cause;
}

std::vector<Explanation> with_factor(Explanation one, double factor, double rate) {
  one.factor = factor;
  one.rate = rate;
  return {one};
}

TEST(Explanations, OneThatFitsEverywhereIsNamed) {
  EXPECT_EQ(named({{{kDecay, kRate}}, {{kRate}}}), "opt.other_rate");
  EXPECT_EQ(named({{{kDecay, kRate}}, std::nullopt, {{kDecay}}}), "opt.decay_scale");
}

TEST(Explanations, NothingIsNamedWhereTwoFitOrNone) {
  EXPECT_EQ(named({{{kDecay, kRate}}}), "");
  EXPECT_EQ(named({{{kDecay}}, {{kRate}}}), "");
  EXPECT_EQ(named({{{kDecay}}, std::vector<Explanation>{}}), "");
  EXPECT_EQ(named({std::nullopt}), "");
}

TEST(Explanations, AFactorIsTheSameOrInProportionToTheRate) {
  EXPECT_EQ(named({{{kDecay}}, with_factor(kDecay, 0.1, 0.25)}), "opt.decay_scale");
  EXPECT_EQ(named({{{kDecay}}, with_factor(kDecay, 0.05, 0.25)}), "opt.decay_scale");
  EXPECT_EQ(named({{{kDecay}}, with_factor(kDecay, 0.07, 0.25)}), "");
}

}  // namespace
}  // namespace lockstep::laws
