// Times of steps, their quartiles, and the decision on them.
#include "harness/app/cost.h"

#include <optional>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::app {
namespace {

using judge::Status;

/// Rounds with these ratios, of steps that become shorter.
std::vector<CostRound> rounds(const std::vector<double>& ratios) {
  std::vector<CostRound> all;
  double against_s = 1;
  for (const double ratio : ratios) {
    all.push_back({.variant_s = ratio * against_s, .against_s = against_s});
    against_s /= 2;
  }
  return all;
}

const CostRound kLost = {.variant_s = 0.01, .against_s = -0.001};

TEST(Cost, OfAStepIsFreeOfTheStart) {
  const double start_s = 7, step = 0.5;
  EXPECT_DOUBLE_EQ(step_s(start_s + 4 * step, start_s + 12 * step, 4), step);
}

TEST(Cost, QuartilesAreThoseOfNumpy) {
  EXPECT_EQ(quartiles_of({5, 1, 4, 2, 3}), (Quartiles{.lower = 2, .median = 3, .upper = 4}));
  EXPECT_EQ(quartiles_of({4, 1, 3, 2}), (Quartiles{.lower = 1.75, .median = 2.5, .upper = 3.25}));
  EXPECT_EQ(quartiles_of({7}), (Quartiles{.lower = 7, .median = 7, .upper = 7}));
}

TEST(Cost, HoldsWhereTheUpperQuartileKeepsTheLimit) {
  const Cost cost = cost_of(rounds({1, 1.125, 1.25, 1.25, 3}), 1.25);
  EXPECT_EQ(cost.status, Status::kAgree);
  EXPECT_EQ(cost.ratio, (Quartiles{.lower = 1.125, .median = 1.25, .upper = 1.25}));
  EXPECT_EQ(cost.against_s, (Quartiles{.lower = 0.125, .median = 0.25, .upper = 0.5}));
  EXPECT_EQ(cost.next, "");
}

TEST(Cost, IsTooHighWhereTheLowerQuartileBreaksTheLimit) {
  EXPECT_EQ(cost_of(rounds({1, 1.5, 1.5, 2, 2}), 1.25).status, Status::kDivergence);
}

TEST(Cost, IsOpenWhereTheQuartilesLieOnBothSides) {
  const Cost cost = cost_of(rounds({1, 1.25, 1.5, 1.5, 1.5}), 1.25);
  EXPECT_EQ(cost.status, Status::kInconclusive);
  EXPECT_EQ(cost.next, "more --rounds or --steps");
}

TEST(Cost, IsOnlyReportedWithoutALimit) { EXPECT_EQ(cost_of(rounds({9, 9, 9}), std::nullopt).status, Status::kAgree); }

TEST(Cost, LeavesOutRoundsWithoutATime) {
  std::vector<CostRound> some = rounds({1, 1, 1});
  some.insert(some.end(), {kLost, kLost, kLost});
  EXPECT_EQ(cost_of(some, 1.25).status, Status::kAgree);
  EXPECT_EQ(cost_of(some, 1.25).valid, 3U);
  some.push_back(kLost);
  for (const auto limit : {std::optional(1.25), std::optional<double>()}) {
    EXPECT_EQ(cost_of(some, limit).status, Status::kInconclusive);
    EXPECT_EQ(cost_of(some, limit).next, "more --steps");
  }
}

TEST(Cost, OfTwoRoundsIsOpen) {
  EXPECT_EQ(cost_of(rounds({1, 1}), 1.25).status, Status::kInconclusive);
  EXPECT_EQ(cost_of(rounds({9, 9}), 1.25).next, "more --rounds");
}

TEST(Cost, OfNoTimeAtAllIsOpen) {
  const Cost cost = cost_of({kLost}, 1.25);
  EXPECT_EQ(cost.status, Status::kInconclusive);
  EXPECT_FALSE(cost.ratio);
}

}  // namespace
}  // namespace lockstep::app
