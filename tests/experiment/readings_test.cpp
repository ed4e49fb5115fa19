// Facts that control runs give, where they say nothing.
#include "tests/support/tiny/pair.h"

namespace lockstep::test {
namespace {

const Json kSmall = planted("gradient_factor", 1, {{"factor", 1 + 0x1p-20}});

TEST(Readings, OfFloat64AreSilentWhereASideDies) {
  Investigated red;
  red.worker.dies = [](const std::string& where) { return where == "float64/tiny/other/0"; };
  red.run(pair("equal", kNone, kSmall));
  EXPECT_EQ(red.check().status, judge::Status::kDivergence);
  EXPECT_EQ(red.check().decided_by, "float64_silent") << red.told();
  EXPECT_TRUE(shows(red, "float64", "one side did not finish"));
}

TEST(Readings, OfFloat64AreSilentWhereOneOfManyTrainingsDies) {
  const Json autocast = train("autocast", "bf16");
  Investigated open;
  open.worker.dies = [](const std::string& where) { return where == "float64/tiny/other/0"; };
  open.run(pair("rounding", on_ranks(1), on_ranks(3), autocast));
  EXPECT_EQ(open.check().status, judge::Status::kInconclusive);
  EXPECT_EQ(open.check().decided_by, "float64_silent") << open.told();
  EXPECT_TRUE(shows(open, "float64", "a training did not finish"));
}

/// Up to rounding, what float64 settles must hold for every repeat.
TEST(Readings, OfAReplayHoldEveryRepeat) {
  const Json autocast = train("autocast", "bf16");
  const Investigated green(pair("rounding", on_ranks(1), on_ranks(3), merged({autocast, {{"repeats", 2}}})));
  expect_agreement(green, "all_shrink");
  for (const char* run : {"one/0", "one/1", "other/0", "other/1"})
    EXPECT_TRUE(shows(green, "replay", std::string(run) + " reproduces")) << run;
}

/// Each rank adds in an order of its own, and one of them adds something else.
TEST(Readings, OfRanksThatDisagreeAreNoRounding) {
  const Json odd = planted("gradient_factor", 1, {{"rank", 1}, {"factor", 1 + 0x1p-8}});
  const Investigated red(pair("rounding", on_ranks(1), merged({on_ranks(3), odd})));
  EXPECT_EQ(red.check().status, judge::Status::kDivergence);
  EXPECT_EQ(red.at().class_, Class::kSemantic) << red.told();
  EXPECT_EQ(red.at().place_and_rank(), "step 1, gradient fc1.bias, rank 1") << red.told();
}

/// What fills fresh memory must do so again: a run that dies shows nothing.
TEST(Readings, OfAFillNeedAllRuns) {
  Investigated red;
  red.worker.dies = [](const std::string& where) { return where == "fill/tiny/other/0"; };
  red.run(pair("equal", kNone, planted("gradient_uninitialised", 1, {{"parameter", "fc1.bias"}})));
  EXPECT_EQ(red.check().decided_by, "varies") << red.told();
  EXPECT_TRUE(shows(red, "fill", "other did not finish when replayed"));
  EXPECT_FALSE(red.worker.made("fill_again"));
}

}  // namespace
}  // namespace lockstep::test
