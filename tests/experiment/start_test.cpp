// Weights are drawn in float32 whatever the precision, and other kernels draw other bits.
#include "tests/support/tiny/pair.h"

namespace lockstep::test {
namespace {

const Json kElsewhere = train("determinism", {{"cpu", "portable-v1"}});

TEST(Start, ThatOtherKernelsDrewIsNoMistake) {
  const Investigated red(pair("equal", kNone, kElsewhere));
  EXPECT_EQ(red.check().status, judge::Status::kDivergence);
  EXPECT_EQ(red.at().place_and_rank(), "step -1, weight fc1.bias, rank 0");
  EXPECT_EQ(red.at().class_, Class::kRounding) << red.told();
  EXPECT_TRUE(shows(red, "float64", "initial weights are drawn in float32"));
}

/// In float64 both sides begin with the weights that one of them drew.
TEST(Start, IsCommonInFloat64) {
  const Json on_gradients = {{"checks", {check_of("equal", {{"variants", {"one", "other"}}, {"on", {"gradient"}}})}}};
  const Investigated red(pair("equal", kNone, kElsewhere, on_gradients));
  EXPECT_EQ(red.at().class_, Class::kRounding) << red.told();
  EXPECT_TRUE(shows(red, "float64", "it is rounding"));
  EXPECT_EQ(red.check().decided_by, "steps_agree");
}

TEST(Start, HidesNoMistake) {
  const Json on_gradients = {{"checks", {check_of("equal", {{"variants", {"one", "other"}}, {"on", {"gradient"}}})}}};
  const Json other = merged({kElsewhere, planted("gradient_factor", 2, {{"factor", 1 + 0x1p-8}})});
  const Investigated red(pair("equal", kNone, other, on_gradients));
  EXPECT_EQ(red.at().step, 2) << red.told();
  EXPECT_EQ(red.at().class_, Class::kSemantic) << red.told();
}

}  // namespace
}  // namespace lockstep::test
