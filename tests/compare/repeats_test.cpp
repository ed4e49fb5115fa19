#include "tests/compare/bench.h"

// A check speaks of every repeat of its variants: the second one counts as the first does.

namespace lockstep::test {
namespace {

using trace::Channel;

Bench twice(const Json& check) { return Bench({{"repeats", 2}, {"checks", {check}}}); }

TEST(Repeats, AreAllEqual) {
  Bench bench = twice({{"that", "equal"}, {"variants", {"a", "b"}}});
  EXPECT_TRUE(agrees(bench.check()));
  for (const char* variant : {"a", "b"}) {
    Bench red = twice({{"that", "equal"}, {"variants", {"a", "b"}}});
    spoil(red.run(variant, 1), 1, 2, Channel::kWeight, "fc.weight");
    EXPECT_TRUE(diverges_at(red.check(), 2, Channel::kWeight, "fc.weight", 1)) << variant;
  }
}

TEST(Repeats, AreAllHeldAgainstTheBoundOfRounding) {
  for (const char* variant : {"a", "b"}) {
    Bench red = twice({{"that", "rounding"}, {"variants", {"a", "b"}}});
    EXPECT_TRUE(agrees(red.check()));
    spoil(red.run(variant, 1), 1, 2, Channel::kSamples, "ids");
    EXPECT_TRUE(diverges_at(red.check(), 2, Channel::kSamples, "ids", 1)) << variant;
  }
}

TEST(Repeats, AllDiffer) {
  Bench bench = twice({{"that", "differs"}, {"variants", {"a", "b"}}});
  bench.rerun("b", {.learning_rate = [](auto, double rate) { return 2 * rate; }});
  EXPECT_TRUE(agrees(bench.check()));
  bench.run("b", 1) = bench.run("a");
  EXPECT_FALSE(agrees(bench.check())) << "one repeat of b is a's training";
}

}  // namespace
}  // namespace lockstep::test
