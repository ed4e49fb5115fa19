// Which findings are tried again, and in which variants.
#include "harness/experiment/case.h"

#include "harness/experiment/trials.h"

#include "tests/support/tiny/pair.h"

namespace lockstep::test {
namespace {

using Names = std::vector<std::string>;

/// A check that was judged, before any trial.
struct Judgement : JudgedInMemory {
  explicit Judgement(const Json& changes, const std::string& dies = "") {
    worker.dies = [&](const std::string& where) { return !dies.empty() && where.starts_with(dies); };
    judge(tiny_scenario(changes, scratch));
  }

  std::optional<experiment::Case> of_check() {
    return experiment::case_of(verdict.checks.at(0), plan.scenarios[0], plan.checks[0],
                               experiment::Runs(plan, evidence, "tiny"));
  }
};

const Json kMistaken = planted("gradient_factor", 1, {{"factor", 1.5}});

TEST(Case, IsNoneOfAGreenCheck) {
  Judgement green(pair("equal", kNone, kNone));
  EXPECT_FALSE(green.of_check());
}

TEST(Case, KnowsItsSidesAndWhatTheyMustBe) {
  Judgement equal(pair("equal", kNone, kMistaken));
  const auto one = equal.of_check();
  ASSERT_TRUE(one);
  EXPECT_EQ(one->sides(), (Names{"one", "other"}));
  EXPECT_TRUE(one->finding.wants_same_bits && one->finding.has_both_runs && one->finding.can_step_alone);
  EXPECT_FALSE(one->finding.is_up_to_rounding || one->finding.is_of_repeats || one->finding.differs_slightly);
  Judgement rounding(pair("rounding", on_ranks(1), merged({on_ranks(3), kMistaken})));
  EXPECT_TRUE(rounding.of_check()->finding.is_up_to_rounding);
  Judgement small(pair("equal", kNone, planted("gradient_factor", 1, {{"factor", 1 + 0x1p-20}})));
  EXPECT_TRUE(small.of_check()->finding.differs_slightly);
}

/// At another number of ranks it can only be equal up to rounding.
TEST(Case, OfAResumptionFollowsTheNumberOfRanks) {
  for (const int ranks : {2, 3}) {
    const Json load = {{"from", "half"}, {"restore", {"weights", "optimizer", "schedule", "sampler"}}};
    const Json sides = {{"straight", "straight"}, {"interrupted", "resumed"}};
    const Json half = {{"steps", 2}, {"checkpoint", {{"save_after", 2}}}};
    Judgement resumed(small_training({{"variants",
                                       {{"straight", kNone},
                                        {"half", merged({on_ranks(ranks), {{"train", half}}})},
                                        {"resumed", merged({on_ranks(2), train("checkpoint", {{"load", load}}),
                                                            planted("loss_factor", 3, {{"factor", 2}})})}}},
                                      {"checks", {check_of("resumes", sides)}}}));
    const auto one = resumed.of_check();
    ASSERT_TRUE(one) << resumed.verdict.checks[0].result.why;
    EXPECT_EQ(one->sides(), (Names{"straight", "resumed"}));
    EXPECT_EQ(one->finding.is_up_to_rounding, ranks == 3);
  }
}

TEST(Case, IsNoneWhereARunDied) {
  Judgement dead(pair("rounding", kNone, kMistaken), "tiny/other");
  EXPECT_EQ(dead.verdict.checks[0].status, judge::Status::kInconclusive);
  EXPECT_FALSE(dead.of_check());
}

TEST(Case, IsTriedInItsSidesAlone) {
  Json three = pair("equal", kNone, kMistaken);
  three["variants"]["third"] = kNone;
  three["checks"] = {check_between("equal", {"one", "third", "other"})};
  Judgement equal(three);
  EXPECT_EQ(variants_worth_trying(*equal.of_check()), (Names{"one", "other"}));
  // Up to rounding it may turn out to hold for all.
  three["checks"] = {check_between("rounding", {"one", "third", "other"})};
  Judgement rounding(three);
  EXPECT_EQ(variants_worth_trying(*rounding.of_check()), (Names{"one", "third", "other"}));
}

TEST(Case, IsTriedInTheSideThatDidNotComeOutAgain) {
  Judgement equal(pair("equal", kNone, kMistaken));
  auto one = equal.of_check();
  decision::Repeated lost{.run = "other/0"};
  lost.apart = one->at();
  one->learn(decision::Replay{.runs = {{.run = "one/0"}, lost}});
  EXPECT_EQ(variants_worth_trying(*one), (Names{"other"}));
}

TEST(Trials, OfOneKindHaveTheirControls) {
  using decision::Trial;
  EXPECT_TRUE(experiment::controls_of(Trial::kDiagnosis).empty());
  EXPECT_EQ(experiment::controls_of(Trial::kReplayOften).at(0).repeats, experiment::kReplays - 1);
  EXPECT_EQ(experiment::controls_of(Trial::kReplayTwice).at(0).repeats, 2);
  EXPECT_EQ(experiment::controls_of(Trial::kFill).size(), 2U);
  for (const experiment::Control& control : experiment::controls_of(Trial::kFillAgain)) EXPECT_EQ(control.repeats, 2);
  EXPECT_EQ(experiment::controls_of(Trial::kFloat64).at(0).id, "float64");
}

}  // namespace
}  // namespace lockstep::test
