// What is decided by what was changed, and what by chance.
#include "harness/compare/repeats.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {
namespace {

using compare::decided_by;
using trace::Channel;

/// Runs of one training whose weights came out in one of two ways: "011" are three, the first as it should be.
class Coins {
 public:
  Coins() { spoil(bench_.run("b"), 1, 2, Channel::kWeight, "fc.bias"); }

  std::vector<const trace::RunTrace*> fell(const std::string& ways) {
    std::vector<const trace::RunTrace*> runs;
    for (const char way : ways) runs.push_back(&bench_.run(way == '0' ? "a" : "b"));
    return runs;
  }

 private:
  Bench bench_{Json{{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}}};
};

TEST(Repeats, WhatWasChangedDecidesEachTime) {
  Coins coins;
  const auto moved = decided_by(coins.fell("000"), coins.fell("111"));
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->place_and_rank(), "step 2, weight fc.bias, rank 1");
  EXPECT_FALSE(decided_by(coins.fell("000"), coins.fell("000")));
}

TEST(Repeats, WhatFallsOtherwiseOnceIsChance) {
  Coins coins;
  for (const char* ways : {"100", "010", "001"}) {
    EXPECT_FALSE(decided_by(coins.fell(ways), coins.fell("111"))) << ways;
    EXPECT_FALSE(decided_by(coins.fell("111"), coins.fell(ways))) << ways;
    EXPECT_TRUE(compare::not_alike(*coins.fell("0")[0], coins.fell(ways))) << ways;
  }
  EXPECT_FALSE(compare::not_alike(*coins.fell("0")[0], coins.fell("000")));
}

TEST(Repeats, NothingIsDecidedByNoRuns) {
  Coins coins;
  EXPECT_FALSE(decided_by({}, coins.fell("1")));
  EXPECT_FALSE(decided_by(coins.fell("0"), {}));
}

}  // namespace
}  // namespace lockstep::test
