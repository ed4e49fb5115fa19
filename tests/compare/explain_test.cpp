// harness/compare/explain: what a factor between two gradients may mean.
#include <gtest/gtest.h>

#include "harness/compare/difference.h"

namespace lockstep::compare {
namespace {

std::string cause_of_factor(double factor, std::int64_t world_size) {
  Divergence divergence{.step = 0, .channel = trace::Channel::kGradient, .tensor = "fc.weight"};
  explain(divergence, {.world_size = world_size, .factor = factor});
  return divergence.cause;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Explain, AFactorOfTheRanksIsOneToAPartInAThousand) {
  for (const double sign : {1.0, -1.0}) {
    const double inside = 1 + sign * 0.9e-3, outside = 1 + sign * 1.1e-3;
    EXPECT_TRUE(holds(cause_of_factor(4 * inside, 4), "a factor of 4 may be a sum")) << inside;
    EXPECT_FALSE(holds(cause_of_factor(4 * outside, 4), "may be a sum")) << outside;
    EXPECT_TRUE(holds(cause_of_factor(inside / 4, 4), "1/4 may be a second division")) << inside;
    EXPECT_FALSE(holds(cause_of_factor(outside / 4, 4), "may be a second division")) << outside;
  }
}

TEST(Explain, OfTwoRanksAFactorSaysAsMuchAsOfMore) {
  EXPECT_TRUE(holds(cause_of_factor(2, 2), "a factor of 2 may be a sum"));
  EXPECT_FALSE(holds(cause_of_factor(1, 1), "may be"));
}

}  // namespace
}  // namespace lockstep::compare
