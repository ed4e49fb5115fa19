// The smallest violation that a law still finds, and one that rounding explains.
#include <vector>

#include <gtest/gtest.h>

#include "harness/laws/law.h"

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;
using Values = std::vector<float>;

constexpr double kFound = 1e-5, kHidden = 1e-7;

Record times(Channel channel, const std::string& name, Values values, double factor, double more) {
  for (float& value : values) value = static_cast<float>(value * factor * (1 + more));
  return test::floats(channel, name, values);
}

const Values kGradient = {3, 4}, kWeight = {2, 7};

/// Whether a run of these steps, alike on each rank, breaks a law.
bool breaks(const char* law, const scenario::Promises& promises, const std::vector<std::vector<Record>>& steps) {
  trace::RunTrace run{
      .run = "a/0", .ranks = std::vector<trace::Trace>(static_cast<std::size_t>(promises.world_size)), .unplaced = {}};
  for (trace::Trace& rank : run.ranks) {
    for (const auto& records : steps)
      rank.steps.push_back({.step = static_cast<std::int64_t>(rank.steps.size()), .records = records});
  }
  const Outcome outcome = ask(law_named(law), run, promises);
  EXPECT_GT(outcome.judged, 0U) << law << outcome.because;
  return outcome.broken.has_value();
}

TEST(Dose, OfTheReducedGradient) {
  scenario::Promises promises{.world_size = 2};
  promises.train.record.channels = {"gradient.local", "gradient"};
  const auto off_by = [&](double more) {
    return breaks(
        "reduction", promises,
        {{test::floats(Channel::kGradientLocal, "w", kGradient), times(Channel::kGradient, "w", kGradient, 1, more)}});
  };
  EXPECT_TRUE(off_by(kFound));
  EXPECT_FALSE(off_by(kHidden));
}

TEST(Dose, OfTheUnscaledGradient) {
  const auto off_by = [&](double more) {
    return breaks("unscaling", {},
                  {{times(Channel::kGradient, "w", kGradient, 1024, 0),
                    times(Channel::kGradient, "unscaled w", kGradient, 1, more), test::number("loss_scale", 1024)}});
  };
  EXPECT_TRUE(off_by(kFound));
  EXPECT_FALSE(off_by(kHidden));
}

/// The norm is added up in float32: it may be off by 10^-3.
TEST(Dose, OfTheClippedGradient) {
  scenario::Promises promises;
  promises.train.gradient.clip_norm = 1;
  const auto off_by = [&](double more) {
    return breaks("clipping", promises,
                  {{test::floats(Channel::kGradient, "w", kGradient),
                    times(Channel::kGradient, "clipped w", kGradient, 0.2, more)}});
  };
  EXPECT_TRUE(off_by(2e-3));
  EXPECT_FALSE(off_by(5e-4));
}

TEST(Dose, OfTheMomentum) {
  scenario::Promises promises;
  promises.train.optimizer = {.kind = recipe::OptimizerKind::kSgd,
                              .options = {{"momentum", 0.5}, {"groups", Json::array()}}};
  const auto off_by = [&](double more) {
    const Record weight = test::floats(Channel::kWeight, "w", kWeight);
    return breaks("state", promises,
                  {{weight, test::floats(Channel::kOptimizer, "w.momentum_buffer", kGradient)},
                   {test::floats(Channel::kGradient, "w", kGradient), weight,
                    times(Channel::kOptimizer, "w.momentum_buffer", kGradient, 1.5, more)}});
  };
  EXPECT_TRUE(off_by(kFound));
  EXPECT_FALSE(off_by(kHidden));
}

TEST(Dose, OfTheAverage) {
  scenario::Promises promises;
  promises.train.ema_decay = 0.75;
  const auto off_by = [&](double more) {
    return breaks("average", promises,
                  {{test::floats(Channel::kEma, "w", kWeight), test::floats(Channel::kWeight, "w", kWeight)},
                   {times(Channel::kEma, "w", kWeight, 1.25, more), times(Channel::kWeight, "w", kWeight, 2, 0)}});
  };
  EXPECT_TRUE(off_by(kFound));
  EXPECT_FALSE(off_by(kHidden));
}

}  // namespace
}  // namespace lockstep::laws
