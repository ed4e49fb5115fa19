// Numbers that are finite each, and overflow in float32 once they are added up: nothing is judged by them.
#include <cmath>

#include <gtest/gtest.h>

#include "harness/laws/law.h"

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

trace::RunTrace run_of(const std::vector<trace::Record>& records, std::size_t ranks) {
  trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(ranks), .unplaced = {}};
  for (trace::Trace& rank : run.ranks) {
    rank.steps = {{.step = 0, .records = records}};
    rank.steps[0].records.push_back(test::floats(Channel::kWeight, "w", {1}));
  }
  return run;
}

TEST(Overflow, OfLossesThatAreAddedUp) {
  const auto judged = [](float local, float reduced) {
    return ask(
        law_named("loss"),
        run_of({test::scalar(Channel::kLoss, "local", local), test::scalar(Channel::kLoss, "reduced", reduced)}, 4),
        {});
  };
  EXPECT_TRUE(judged(1, 1).holds());
  EXPECT_TRUE(judged(1, INFINITY).broken);
  EXPECT_FALSE(judged(3e38F, INFINITY).broken) << "four of these are infinite";
}

TEST(Overflow, OfTheNormThatClips) {
  scenario::Promises promises;
  promises.train.gradient.clip_norm = 1;
  const auto judged = [&](float gradient) {
    return ask(law_named("clipping"),
               run_of({test::floats(Channel::kGradient, "w", {gradient, gradient}),
                       test::floats(Channel::kGradient, "clipped w", {0, 0})},
                      1),
               promises);
  };
  EXPECT_TRUE(judged(1e10F).broken);
  EXPECT_FALSE(judged(1e20F).broken) << "its square is infinite";
}

TEST(Overflow, OfGradientsThatAreSentInFloat16) {
  scenario::Promises promises{.world_size = 2};
  promises.train.record.channels = {"gradient.local", "gradient"};
  const auto judged = [&](const std::string& compression) {
    promises.train.ddp.compression = recipe::named<recipe::Compression>(compression);
    return ask(
        law_named("reduction"),
        run_of({test::floats(Channel::kGradientLocal, "w", {7e4F}), test::floats(Channel::kGradient, "w", {INFINITY})},
               2),
        promises);
  };
  EXPECT_TRUE(judged("none").broken);
  EXPECT_FALSE(judged("fp16").broken);
}

}  // namespace
}  // namespace lockstep::laws
