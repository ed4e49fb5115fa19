// harness/compare/rounding: the scale of a tensor that is small in its layer.
#include "harness/compare/rounding.h"

#include <algorithm>

#include "tests/support/tiny/bench.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::Record;

TEST(RoundingBound, ATensorThatCancelsHasASixtyFourthOfItsLayersScale) {
  test::Bench bench(Json{{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}});
  const trace::RunTrace &a = bench.run("a"), &b = bench.run("b");
  const Record zeros = test::floats(Channel::kGradient, "fc.bias", {0, 0, 0, 0});
  const double scale = std::max(laws::Scales(a).largest(zeros, 2), laws::Scales(b).largest(zeros, 2));
  const auto judged = [&](double part) {
    const auto element = static_cast<float>(part * scale);
    return *RoundingBound(a, b).judge(zeros, test::floats(Channel::kGradient, "fc.bias", {element, 0, 0, 0}), 2, 0);
  };
  const double least = 0x1p-13 / 64;  // what a factor of 1 + 2^-10 on one rank of eight makes of that scale
  EXPECT_TRUE(judged(0.9 * least).explained());
  EXPECT_FALSE(judged(0.9 * least).may_be_factor());
  EXPECT_TRUE(judged(1.1 * least).may_be_factor());
}

TEST(RoundingBound, AStateElsewhereIsNotExplainedByEqualUpdates) {
  test::Bench bench(Json{{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}});
  for (const auto& [name, offset] : {std::pair("a", 0.0F), std::pair("b", 1.0F)}) {
    for (std::int64_t step = -1; step < 4; ++step) {
      const float moved = static_cast<float>(step) / 64 + offset;
      for (const std::int64_t rank : {0, 1})
        test::put(bench.run(name), rank, step, test::floats(Channel::kWeight, "fc.bias", {moved, moved, moved, moved}));
    }
  }
  const auto weight = [&](const char* name) { return test::at(bench.run(name), 0, 2, Channel::kWeight, "fc.bias"); };
  const auto rounding = RoundingBound(bench.run("a"), bench.run("b")).judge(weight("a"), weight("b"), 2, 0);
  ASSERT_TRUE(rounding);
  EXPECT_FALSE(rounding->explained()) << rounding->distance << " of " << rounding->bound;
}

TEST(RoundingBound, TheLargestElementsTellADistanceToo) {
  const test::Bench bench(Json{{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}});
  const Record left = test::floats(Channel::kGradient, "fc.bias", {1, 2, 3, 4});
  Record right = left;
  right.max_abs = 5;
  EXPECT_EQ(RoundingBound(bench.runs.at("a")[0], bench.runs.at("b")[0]).judge(left, right, 2, 0)->distance, 1);
}

}  // namespace
}  // namespace lockstep::compare
