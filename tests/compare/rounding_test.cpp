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

}  // namespace
}  // namespace lockstep::compare
