// What the captures of a control run show of a difference: its element, its operator, and the way that made it.
#include "tests/support/tiny/pair.h"

namespace lockstep::test {
namespace {

using Says = compare::OperatorFinding::Says;

TEST(Closeup, NamesTheElement) {
  const Json flipped = planted("flip_weight_bit", 2,
                               {{"rank", 1}, {"parameter", "fc1.weight"}, {"element", 5}, {"bit", 20}, {"once", true}});
  const Investigated red(pair("equal", kNone, flipped));
  ASSERT_TRUE(red.at().element) << red.told();
  const compare::Element& element = *red.at().element;
  EXPECT_EQ(red.at().place_and_rank(), "step 2, weight fc1.weight, rank 1");
  EXPECT_EQ(element.index, (std::vector<std::int64_t>{0, 5}));
  EXPECT_EQ(element.unequal, 1U);
  EXPECT_EQ(element.ulps, 1U << 20);
  EXPECT_FALSE(red.at().operator_) << red.told();  // no operator did it
}

TEST(Closeup, NamesAnOperatorThatIsFedAnotherNumber) {
  const Json on_weights = {{"checks", {check_of("equal", {{"variants", {"one", "other"}}, {"on", {"weight"}}})}}};
  const Json slower = train("optimizer", {{"kind", "sgd"}, {"lr", 0.05}, {"momentum", 0.9}});
  const Investigated red(pair("equal", kNone, slower, on_weights));
  ASSERT_TRUE(red.at().operator_) << red.told();
  EXPECT_EQ(red.at().operator_->says, Says::kIsFed);
  EXPECT_EQ(red.at().operator_->call.phase, "optimizer");
  EXPECT_NE(red.at().operator_->text.find("-0.1"), std::string::npos) << red.told();
}

TEST(Closeup, NamesAnOperatorThatOneSideAdds) {
  const Investigated red(pair("equal", kNone, planted("gradient_factor", 1, {{"rank", 0}, {"factor", 1.5}})));
  ASSERT_TRUE(red.at().operator_) << red.told();
  EXPECT_EQ(red.at().operator_->says, Says::kIsCalled);
  EXPECT_EQ(red.at().operator_->call.name, "aten::mul_");
}

TEST(Closeup, SeesOneFactorInAllElements) {
  const Investigated red(pair("equal", kNone, train("ddp", {{"average", false}})));
  ASSERT_TRUE(red.at().element) << red.told();
  EXPECT_EQ(red.at().element->factor, 2);
}

/// In whose step there are no gradients beside them.
TEST(Closeup, LooksAtAverages) {
  const Json larger = planted("learning_rate_factor", 2, {{"factor", 1.5}});
  const Json averages = {{"train", {{"ema", {{"decay", 0.9}}}}},
                         {"checks", {check_of("equal", {{"variants", {"one", "other"}}, {"on", {"ema"}}})}}};
  const Investigated red(pair("equal", kNone, larger, averages));
  EXPECT_EQ(red.at().place_and_rank(), "step 2, ema fc1.bias, rank 0");
  EXPECT_TRUE(red.at().element && red.at().operator_) << red.told();
}

// Ranks of one run have one reduction: what the ranks' own gradients make in each element decides, whatever its norm.
TEST(Closeup, TellsElementsThatNoOrderOfAddingMakes) {
  const auto judged = [](const Json& fault) {
    return small_training(
        merged({{{"world_size", 3}, {"variants", {{"main", kNone}}}, {"checks", {check_of("ranks_agree")}}}, fault}));
  };
  const Json scales = {{"rank", 1}, {"factor", 1 + 0x1p-20}, {"parameter", "fc1.weight"}, {"float32_only", true}};
  const Investigated scaled(judged(planted("gradient_factor", 1, scales)));
  EXPECT_EQ(scaled.at().place_and_rank(), "step 1, gradient fc1.weight, rank 1") << scaled.told();
  EXPECT_EQ(scaled.at().class_, Class::kSemantic) << scaled.told();
  EXPECT_EQ(scaled.at().cause_id(), "unknown");
  const Investigated ordered(judged(planted("rank_order", 1)));
  EXPECT_EQ(ordered.at().class_, Class::kRounding) << ordered.told();
  EXPECT_EQ(ordered.at().cause_id(), "fp.rank_order") << ordered.told();
}

// A fault in one rank's own gradients, so that every rank still holds their mean.
TEST(Closeup, SeesADetourThroughSixteenBits) {
  const Json rounded = planted("gradient_rounded", 3, {{"rank", 1}, {"place", "backward"}, {"float32_only", true}});
  Json both = pair("rounding", on_ranks(1), on_ranks(3), train("steps", 5));
  both["variants"]["mistaken"] = merged({on_ranks(3), rounded});
  for (const char* that : {"rounding", "equal"})  // which differs from the first step on
    both["checks"].push_back(check_between(that, {"one", "mistaken"}));
  const Investigated red(both);
  expect_agreement(red, "");
  for (const std::size_t check : {1U, 2U}) {
    EXPECT_EQ(red.at(check).cause_id(), "fp.precision_mode") << red.told(check);
    EXPECT_EQ(red.at(check).step, 3) << red.told(check);
    EXPECT_EQ(red.at(check).channel, Channel::kGradient) << red.told(check);
    EXPECT_TRUE(red.at(check).element) << red.told(check);
  }
}

/// What the ranks send is not what they computed.
TEST(Closeup, NamesTheRanksWhoseGradientsAreRoundedOnTheWay) {
  const Investigated red(
      pair("equal", on_ranks(3), merged({on_ranks(3), planted("sent_rounded", 1, {{"of_rank", 1}})})));
  ASSERT_TRUE(red.at().detour) << red.told();
  EXPECT_EQ(red.at().detour->text(), "those of rank 1 rounded to bfloat16");
}

// The training that saved ends before the step that is looked at, and records other channels.
TEST(Closeup, IsTakenOfAResumedTraining) {
  const Json half = {{"steps", 2}, {"checkpoint", {{"save_after", 2}}}, {"record", {{"channels", {"loss"}}}}};
  const Json resumed = {{"checkpoint", {{"load", {{"from", "half"}}}}},
                        {"faults", {mistake("gradient_factor", 3, {{"factor", 1 + 0x1p-20}})}}};
  const Json sides = {{"straight", "straight"}, {"interrupted", "resumed"}};
  const Investigated red(small_training(
      {{"variants", {{"straight", kNone}, {"half", {{"train", half}}}, {"resumed", {{"train", resumed}}}}},
       {"checks", {check_of("resumes", sides)}}}));
  expect_found(red, "stays_in_float64", "step 3, gradient fc1.bias, rank 0");
  EXPECT_TRUE(shows(red, "replay", "straight/0 reproduces"));
  EXPECT_TRUE(shows(red, "replay", "resumed/0 reproduces"));
  ASSERT_TRUE(red.at().element && red.at().operator_) << red.told();
  EXPECT_EQ(red.at().operator_->call.name, "aten::mul_");
}

}  // namespace
}  // namespace lockstep::test
