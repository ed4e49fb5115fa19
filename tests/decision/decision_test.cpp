// The decision on a finding, row by row of the table of docs/rounding.md. No process starts: the facts are made by
// hand (made_facts.h).
#include "harness/decision/decision.h"

#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/decision/made_facts.h"
#include "tests/support/support.h"

namespace lockstep::test {
namespace {

// ---- what is known without a trial ----

TEST(Decision, NobodyIsAskedWhereNothingDiffers) {
  const Decided agree({.result = {.status = Status::kAgree, .compared = 3}, .sides = {"a", "b"}});
  EXPECT_EQ(agree.tried, Trials{Trial::kReplay});
  EXPECT_EQ(agree.row(), Row::kUnchanged);
  EXPECT_EQ(agree.status(), Status::kAgree);
}

TEST(Decision, AToldCauseCostsOneReplay) {
  const Decided told(named("recipe.changed"));
  EXPECT_EQ(told.tried, (Trials{Trial::kReplay, Trial::kDiagnosis}));
  EXPECT_EQ(told.row(), Row::kTold);
}

TEST(Decision, ACauseThatIsNotToldIsReplayedOften) {
  const Decided cause(named("hw.sdc_rank"));
  EXPECT_EQ(cause.tried, (Trials{Trial::kReplay, Trial::kDiagnosis, Trial::kReplayOften}));
  EXPECT_EQ(cause.row(), Row::kNamed);
  EXPECT_EQ(cause.end.again, Again::kSame);
}

TEST(Decision, ChanceDoesNotKeepALaw) {
  const Decided law(named("grad.reduce_sum"));
  EXPECT_EQ(law.tried, (Trials{Trial::kReplay, Trial::kDiagnosis}));
  EXPECT_EQ(law.row(), Row::kNamed);
  EXPECT_TRUE(Decided(named("grad.reduce_sum"), {{Trial::kReplay, differs_once()}}).made(Trial::kReplayOften));
}

TEST(Decision, AnUnknownCauseIsReplayedWithOtherMemory) {
  const Decided unknown(equal(difference(3, Channel::kSamples)));
  EXPECT_EQ(unknown.tried, (Trials{Trial::kReplay, Trial::kDiagnosis, Trial::kFill}));
}

TEST(Decision, AToldCauseThatDoesNotReproduceIsNotDoneYet) {
  const Decided told(named("recipe.changed"), {{Trial::kReplay, differs_once()}});
  EXPECT_TRUE(told.made(Trial::kReplayOften));
  EXPECT_EQ(told.row(), Row::kReplayDiffers);
}

TEST(Decision, SamplesCannotRound) {
  const Decided samples(equal(difference(3, Channel::kSamples)));
  EXPECT_FALSE(samples.made(Trial::kFloat64));
  EXPECT_EQ(samples.row(), Row::kCannotRound);
  EXPECT_EQ(samples.class_(), Class::kSemantic);
}

TEST(Decision, GradientsCanRound) {
  const Decided gradients(equal());
  EXPECT_TRUE(gradients.made(Trial::kFloat64));
  EXPECT_NE(gradients.row(), Row::kCannotRound);
}

TEST(Decision, ANamedCauseIsTriedInFloat64OnlyIfTheDifferenceIsSlight) {
  Finding finding = named("hw.sdc_rank");
  EXPECT_FALSE(Decided(finding).made(Trial::kFloat64));
  finding.differs_slightly = true;
  EXPECT_TRUE(Decided(finding).made(Trial::kFloat64));
  finding.has_both_runs = false;  // against a golden
  EXPECT_FALSE(Decided(finding).made(Trial::kFloat64));
  finding.has_both_runs = true;
  finding.wants_same_bits = false;
  EXPECT_FALSE(Decided(finding).made(Trial::kFloat64));
}

// ---- replays ----

TEST(Decision, AReplayThatIsLostLeavesTheFindingAsItIs) {
  const Decided lost(named("hw.sdc_rank"),
                     {{Trial::kReplay, Replay{.runs = {{.run = "a/0"}, {.run = "b/0", .finished = false}}}}});
  EXPECT_EQ(lost.row(), Row::kReplayLost);
  EXPECT_EQ(lost.end.again, Again::kNotTried);
  EXPECT_NE(lost.shown().find("b/0 did not finish when replayed"), std::string::npos);
}

TEST(Decision, FreshMemoryIsNotBlamedWhereAReplayIsLost) {
  Finding unknown = equal(difference(3, Channel::kSamples));
  EXPECT_TRUE(Decided(unknown).made(Trial::kFill));
  const Replay lost{.runs = {{.run = "a/0"}, {.run = "b/0", .finished = false}}};
  EXPECT_FALSE(Decided(unknown, {{Trial::kReplay, lost}}).made(Trial::kFill));
}

TEST(Decision, ASideThatDiffersOnceIsNondeterminism) {
  const Decided once(equal(), {{Trial::kReplay, differs_once()}});
  EXPECT_EQ(once.row(), Row::kReplayDiffers);
  EXPECT_EQ(once.class_(), Class::kNondeterminism);
  EXPECT_EQ(once.end.again, Again::kOnceOtherwise);
  EXPECT_EQ(once.end.unstable->variant, "b");
  EXPECT_FALSE(once.made(Trial::kFloat64));
}

TEST(Decision, ASideThatReproducesIsNoNondeterminism) {
  const Decided same(equal());
  EXPECT_FALSE(same.end.unstable);
  EXPECT_EQ(same.end.again, Again::kSame);
  EXPECT_NE(same.class_(), Class::kNondeterminism);
}

TEST(Decision, MoreReplaysFindAnUnstableSide) {
  const Decided random(named("hw.sdc_rank"),
                       {{Trial::kReplayOften, ReplayOften{{{.run = "b/0", .apart = difference(2)}}}}});
  EXPECT_EQ(random.row(), Row::kVaries);
  EXPECT_EQ(random.class_(), Class::kNondeterminism);
  EXPECT_EQ(random.end.again, Again::kEachTimeOtherwise);
  EXPECT_TRUE(random.made(Trial::kReplayTwice));
}

TEST(Decision, MoreReplaysThatAgreeChangeNothing) {
  const Decided same(named("hw.sdc_rank"));
  EXPECT_EQ(same.row(), Row::kNamed);
  EXPECT_FALSE(same.made(Trial::kReplayTwice));
}

TEST(Decision, TwoMoreRunsThatDifferVary) {
  const Decided varies(equal(), {{Trial::kReplay, differs_once()},
                                 {Trial::kReplayTwice, ReplayTwice{.run = {.run = "b/0", .apart = difference(0)}}}});
  EXPECT_EQ(varies.row(), Row::kVaries);
  EXPECT_EQ(varies.end.again, Again::kEachTimeOtherwise);
  EXPECT_TRUE(varies.made(Trial::kFill));
}

TEST(Decision, TwoMoreRunsThatMatchLeaveAOneOff) {
  const Decided once(equal(), {{Trial::kReplay, differs_once()}});
  EXPECT_EQ(once.row(), Row::kReplayDiffers);
  EXPECT_NE(once.shown().find("two more runs matched"), std::string::npos);
}

TEST(Decision, RepeatsAreNotReplayedFirst) {
  Finding repeats = red();
  repeats.is_of_repeats = true;
  const Decided of_repeats(repeats);
  EXPECT_FALSE(of_repeats.made(Trial::kReplay));
  EXPECT_FALSE(of_repeats.made(Trial::kReplayOften));
  EXPECT_TRUE(of_repeats.made(Trial::kReplayTwice));
}

TEST(Decision, TheOperatorOfTwoRandomRunsIsTheFindings) {
  Closeup closeup;
  closeup.operator_ = compare::OperatorFinding{};
  const Decided varies(
      named("hw.sdc_rank"),
      {{Trial::kReplay, differs_once()},
       {Trial::kReplayTwice, ReplayTwice{.run = {.run = "b/0", .apart = difference(0)}, .closeup = closeup}}});
  EXPECT_TRUE(varies.end.at().operator_);
  EXPECT_TRUE(varies.end.at().suspects.empty());
}

TEST(Decision, ReplaysThatShowTheElementsOfARandomSideSuffice) {
  Closeup closeup;
  closeup.element = compare::Element{};
  const ReplayOften often{.runs = {{.run = "b/0", .apart = difference(0)}}, .closeup = closeup};
  const Decided varies(named("hw.sdc_rank"), {{Trial::kReplay, differs_once()}, {Trial::kReplayOften, often}});
  EXPECT_EQ(varies.row(), Row::kVaries);
  EXPECT_FALSE(varies.made(Trial::kReplayTwice));
  EXPECT_TRUE(
      Decided(named("hw.sdc_rank"), {{Trial::kReplay, differs_once()}, {Trial::kReplayOften, ReplayOften{often.runs}}})
          .made(Trial::kReplayTwice));
}

// ---- fresh memory ----

Finding unknown() {
  Divergence at = difference(3);
  at.class_ = Class::kSemantic;
  Finding finding = equal(at);
  finding.result.is_no_rounding = true;
  return finding;
}

Answers fill(bool moved, bool again) {
  const auto where = [](bool is) { return is ? std::optional(difference(1)) : std::nullopt; };
  return {{Trial::kFloat64, Float64{.at_finding = pair(kStays), .pairs = {}}},
          {Trial::kFill, Fill{{{.variant = "a"}, {.variant = "b", .moved = where(moved)}}}},
          {Trial::kFillAgain, FillAgain{{{.variant = "a"}, {.variant = "b", .moved = where(again)}}}}};
}

TEST(Decision, ResultsThatFollowTheFillAreUninitialisedMemory) {
  const Decided follows(unknown(), fill(true, true));
  EXPECT_EQ(follows.row(), Row::kFollowsFill);
  EXPECT_EQ(follows.end.at().cause_id(), "mem.uninitialised");
  EXPECT_EQ(follows.class_(), Class::kNondeterminism);
  EXPECT_EQ(follows.end.unstable->variant, "b");
}

TEST(Decision, AFillThatMovesNothingIsNotTriedAgain) {
  const Decided not_moved(unknown(), fill(false, false));
  EXPECT_FALSE(not_moved.made(Trial::kFillAgain));
  EXPECT_EQ(not_moved.row(), Row::kStaysInFloat64);
}

TEST(Decision, AFillThatMovesOnceIsChance) {
  const Decided once(unknown(), fill(true, false));
  EXPECT_TRUE(once.made(Trial::kFillAgain));
  EXPECT_NE(once.row(), Row::kFollowsFill);
  EXPECT_NE(once.shown().find("no reproducible effect"), std::string::npos);
}

TEST(Decision, RunsThatDifferWithOnePatternAreRandom) {
  Answers answers = fill(true, false);
  answers[Trial::kFillAgain] = FillAgain{{{.variant = "a"}, {.variant = "b", .unlike = difference(1)}}};
  const Decided random(unknown(), answers);
  EXPECT_EQ(random.row(), Row::kVaries);
  EXPECT_EQ(random.class_(), Class::kNondeterminism);
  EXPECT_EQ(random.end.unstable->variant, "b");
}

TEST(Decision, RunsThatVaryKeepTheirOperatorWhereTheFillShowsItAgain) {
  Closeup closeup;
  closeup.operator_ = compare::OperatorFinding{};
  Answers answers = fill(true, false);
  answers[Trial::kReplay] = differs_once();
  answers[Trial::kReplayTwice] = ReplayTwice{.run = {.run = "b/0", .apart = difference(0)}, .closeup = closeup};
  answers[Trial::kFillAgain] = FillAgain{{{.variant = "b", .unlike = difference(1)}}};
  EXPECT_TRUE(Decided(unknown(), answers).end.at().operator_);
}

TEST(Decision, AFillThatDoesNotFinishShowsNothing) {
  Answers answers = fill(true, true);
  answers[Trial::kFill] = Fill{{{.variant = "a", .finished = false}, {.variant = "b", .moved = difference(1)}}};
  const Decided lost(unknown(), answers);
  EXPECT_FALSE(lost.made(Trial::kFillAgain));
  EXPECT_NE(lost.row(), Row::kFollowsFill);
}

TEST(Decision, RoundingIsNotBlamedOnFreshMemory) { EXPECT_FALSE(Decided(equal()).made(Trial::kFill)); }

// ---- float64, at the place of the finding ----

TEST(Decision, ADifferenceThatStaysIsAMistake) {
  const Decided stays(rounding(), {{Trial::kFloat64, Float64{.at_finding = pair(kStays), .pairs = {pair()}}}});
  EXPECT_EQ(stays.row(), Row::kStaysInFloat64);
  EXPECT_EQ(stays.status(), Status::kDivergence);
  EXPECT_TRUE(stays.end.is_mistake());
  EXPECT_FALSE(stays.made(Trial::kOneState));
}

TEST(Decision, ADifferenceThatShrinksIsRoundingIfStepsAgree) {
  const Decided shrinks(equal());
  EXPECT_EQ(shrinks.row(), Row::kStepsAgree);
  EXPECT_EQ(shrinks.class_(), Class::kRounding);
  EXPECT_EQ(shrinks.status(), Status::kDivergence);  // equal stays red
}

TEST(Decision, In16BitsNoSingleStepIsTried) {
  Float64 fact = shrinks();
  fact.at_finding->in_16_bits = true;
  const Decided shrinks(equal(), {{Trial::kFloat64, fact}});
  EXPECT_EQ(shrinks.row(), Row::kShrinks);
  EXPECT_FALSE(shrinks.made(Trial::kOneState));
}

TEST(Decision, NeitherShrunkNorThereIsOpen) {
  ASSERT_EQ(kNeither.says(), compare::Ladder::Says::kNothing);
  const Decided neither(equal(), {{Trial::kFloat64, Float64{.at_finding = pair(kNeither), .pairs = {}}}});
  EXPECT_EQ(neither.row(), Row::kFloat64Open);
  EXPECT_EQ(neither.class_(), Class::kUndecided);
  EXPECT_FALSE(neither.made(Trial::kOneState));
}

TEST(Decision, SilentFloat64LeavesTheFinding) {
  const Decided silent(equal(), {{Trial::kFloat64, Float64{.at_finding = InFloat64{.silent = "NaN"}, .pairs = {}}}});
  EXPECT_EQ(silent.row(), Row::kFloat64Silent);
  EXPECT_EQ(silent.class_(), Class::kUndecided);
  EXPECT_NE(silent.shown().find("float64: NaN"), std::string::npos);
}

TEST(Decision, RanksOfOneRunThatDisagreeAreNoRounding) {
  Finding finding = equal();
  finding.result.is_no_rounding = true;
  const Decided ranks(finding);
  EXPECT_EQ(ranks.row(), Row::kRanksDisagree);
  EXPECT_NE(ranks.class_(), Class::kRounding);
  EXPECT_FALSE(ranks.made(Trial::kOneState));
}

TEST(Decision, AMistakeMayBeginEarlierThanTheBoundShows) {
  InFloat64 sides = pair(kStays);
  sides.mistake = difference(1);
  const Decided earlier(rounding(), {{Trial::kFloat64, Float64{.at_finding = sides, .pairs = {}}}});
  EXPECT_EQ(earlier.row(), Row::kBeginsEarlier);
  EXPECT_EQ(earlier.end.at().step, 1);
  EXPECT_TRUE(earlier.made(Trial::kReplayThere));
}

TEST(Decision, AMistakeDoesNotBeginLaterThanItIsSeen) {
  InFloat64 sides = pair(kStays);
  sides.mistake = difference(5);
  const Decided later(rounding(), {{Trial::kFloat64, Float64{.at_finding = sides, .pairs = {}}}});
  EXPECT_EQ(later.row(), Row::kStaysInFloat64);
  EXPECT_EQ(later.end.at().step, 3);
  EXPECT_FALSE(later.made(Trial::kReplayThere));
}

TEST(Decision, AMistakeBehindRoundingIsTheFinding) {
  InFloat64 sides = pair(kShrinks);
  sides.mistake = difference(7);
  const Decided behind(equal(), {{Trial::kFloat64, Float64{.at_finding = sides, .pairs = {}}}});
  EXPECT_EQ(behind.row(), Row::kBehindRounding);
  EXPECT_EQ(behind.end.at().step, 7);
  EXPECT_TRUE(behind.end.is_mistake());
  EXPECT_EQ(behind.end.again, Again::kSame);  // it keeps what the replay showed
}

TEST(Decision, NoMistakeBehindRoundingLeavesItRounding) {
  EXPECT_NE(Decided(equal()).row(), Row::kBehindRounding);
  EXPECT_FALSE(Decided(equal()).end.is_mistake());
}

TEST(Decision, LargerThanAnyRoundingIsAMistakeThatShrinks) {
  InFloat64 sides = pair(kShrinks);
  sides.beyond = difference(3);
  const Decided beyond(equal(), {{Trial::kFloat64, Float64{.at_finding = sides, .pairs = {}}}});
  EXPECT_EQ(beyond.row(), Row::kBeyondRounding);
  EXPECT_TRUE(beyond.end.is_mistake());
  EXPECT_FALSE(beyond.made(Trial::kOneState));  // it cannot begin before
}

TEST(Decision, LargerThanAnyRoundingLaterMayBeginBefore) {
  InFloat64 sides = pair(kShrinks);
  sides.beyond = difference(6);
  const Decided beyond(equal(), {{Trial::kFloat64, Float64{.at_finding = sides, .pairs = {}}}});
  EXPECT_EQ(beyond.row(), Row::kBeyondRounding);
  EXPECT_EQ(beyond.end.at().step, 6);
  EXPECT_TRUE(beyond.made(Trial::kOneState));
}

TEST(Decision, OfAStepThatIsCutOtherwiseTheEarlierChannelIsRounding) {
  InFloat64 sides = pair(kShrinks);
  sides.beyond = difference(3, Channel::kWeight);
  EXPECT_EQ(Decided(equal(), {{Trial::kFloat64, Float64{.at_finding = sides, .pairs = {}}}}).end.at().channel,
            Channel::kGradient);
  sides.same_shape = false;
  EXPECT_EQ(Decided(equal(), {{Trial::kFloat64, Float64{.at_finding = sides, .pairs = {}}}}).end.at().channel,
            Channel::kWeight);
}

// ---- float64, over whole trainings ----

Decided settled(const Finding& finding, const InFloat64& facts, Answers more = {}) {
  more[Trial::kFloat64] = Float64{.at_finding = pair(kShrinks), .pairs = {facts}};
  return {finding, more};
}

TEST(Decision, AnOpenCheckAgreesIfStepsAgree) {
  const Decided agrees(open());
  EXPECT_EQ(agrees.row(), Row::kStepsAgree);
  EXPECT_EQ(agrees.status(), Status::kAgree);
  EXPECT_EQ(agrees.end.result.compared, 10u);
}

TEST(Decision, AnOpenCheckDiffersIfItsTrainingsDifferInFloat64) {
  InFloat64 facts = pair();
  facts.judged.first = difference(4);
  const Decided differs = settled(open(), facts);
  EXPECT_EQ(differs.row(), Row::kPairsDiffer);
  EXPECT_EQ(differs.status(), Status::kDivergence);
  EXPECT_EQ(differs.end.at().step, 4);
}

TEST(Decision, ARedCheckPassesTheRoundingBeforeTheMistake) {
  InFloat64 facts = pair();
  facts.judged.first = difference(4);
  facts.mistake = difference(5);
  const Decided differs = settled(rounding(), facts);
  EXPECT_EQ(differs.row(), Row::kBehindRounding);
  EXPECT_EQ(differs.end.at().step, 5);
}

TEST(Decision, ASmallRedCheckAgreesIfEverythingShrinks) {
  const Decided agrees(rounding());
  EXPECT_EQ(agrees.status(), Status::kAgree);
  EXPECT_EQ(agrees.row(), Row::kStepsAgree);
}

TEST(Decision, ALargeRedCheckAsksForStepsBeforeItAgrees) {
  InFloat64 sides = pair(kShrinks);
  sides.is_small = false;
  Answers answers = {{Trial::kFloat64, Float64{.at_finding = sides, .pairs = {pair()}}}};
  EXPECT_EQ(Decided(rounding(), answers).status(), Status::kAgree);
  answers[Trial::kOneState] = Impossible{Trial::kOneState, "it saves at no step"};
  const Decided large(rounding(), answers);
  EXPECT_EQ(large.row(), Row::kStepsImpossible);
  EXPECT_EQ(large.status(), Status::kInconclusive);
  answers[Trial::kFloat64] = [&] {
    Float64 fact{.at_finding = sides, .pairs = {pair()}};
    fact.pairs[0].in_16_bits = true;
    return fact;
  }();
  EXPECT_EQ(Decided(rounding(), answers).row(), Row::kLargerThanOneSample);
}

TEST(Decision, BehindTheHorizonFloat64ProvesNothing) {
  InFloat64 facts = pair();
  facts.judged.first = difference(8);
  facts.horizon = 6;
  facts.in_16_bits = true;
  const Decided behind = settled(open(), facts);
  EXPECT_EQ(behind.row(), Row::kHorizon);
  EXPECT_EQ(behind.status(), Status::kInconclusive);
  facts.horizon = 9;
  EXPECT_EQ(settled(open(), facts).row(), Row::kPairsDiffer);
}

TEST(Decision, BehindTheHorizonStepsDecide) {
  InFloat64 facts = pair();
  facts.judged.first = difference(8);
  facts.horizon = 6;
  const Decided behind = settled(open(), facts);
  EXPECT_EQ(behind.row(), Row::kStepsAgree);
  EXPECT_EQ(behind.status(), Status::kAgree);
}

TEST(Decision, In16BitsFloat64AloneSettles) {
  InFloat64 facts = pair();
  facts.in_16_bits = true;
  const Decided settled_alone = settled(open(), facts);
  EXPECT_EQ(settled_alone.row(), Row::kAllShrink);
  EXPECT_EQ(settled_alone.status(), Status::kAgree);
  EXPECT_FALSE(settled_alone.made(Trial::kOneState));
}

TEST(Decision, AProgramThatCannotStepAloneIsSettledByFloat64) {
  Finding program = open();
  program.can_step_alone = false;
  EXPECT_EQ(settled(program, pair()).row(), Row::kAllShrink);
  EXPECT_NE(settled(open(), pair()).row(), Row::kAllShrink);
}

TEST(Decision, NaNHidesEverything) {
  InFloat64 facts = pair();
  facts.is_finite = false;
  const Decided hidden = settled(rounding(), facts);
  EXPECT_EQ(hidden.row(), Row::kNotFinite);
  EXPECT_EQ(hidden.status(), Status::kInconclusive);
  facts.is_finite = true;
  EXPECT_NE(settled(rounding(), facts).row(), Row::kNotFinite);
}

TEST(Decision, RanksApartInFloat32AreTheFinding) {
  InFloat64 facts = pair();
  facts.ranks_apart = difference(2, Channel::kWeight);
  const Decided apart = settled(open(), facts);
  EXPECT_EQ(apart.row(), Row::kRanksDisagree);
  EXPECT_EQ(apart.status(), Status::kDivergence);
  EXPECT_EQ(apart.end.at().step, 2);
}

TEST(Decision, TrainingsBeyondRoundingAreRedAndAskForSteps) {
  InFloat64 facts = pair();
  facts.beyond = difference(2);
  const Decided beyond = settled(open(), facts);
  EXPECT_EQ(beyond.row(), Row::kBeyondRounding);
  EXPECT_EQ(beyond.status(), Status::kDivergence);
  EXPECT_TRUE(beyond.made(Trial::kOneState));
}

TEST(Decision, NothingComparedSettlesNothing) {
  InFloat64 facts = pair();
  facts.judged.compared = 0;
  const Decided nothing = settled(open(), facts);
  EXPECT_EQ(nothing.status(), Status::kInconclusive);
  EXPECT_EQ(nothing.row(), Row::kUnchanged);
}

TEST(Decision, ATrainingThatDoesNotFinishInFloat64SettlesNothing) {
  const Decided lost = settled(open(), {.silent = "a training did not finish"});
  EXPECT_EQ(lost.row(), Row::kFloat64Silent);
  EXPECT_EQ(lost.status(), Status::kInconclusive);
}

TEST(Decision, NothingIsSettledForRunsThatDoNotReproduce) {
  const Decided random(open(), {{Trial::kReplay, differs_once()}});
  EXPECT_EQ(random.status(), Status::kInconclusive);
  EXPECT_FALSE(random.made(Trial::kOneState));
}

// ---- single steps from one state ----

Decided stepped(const Finding& finding, const Fact& one_state, Answers more = {}) {
  more[Trial::kOneState] = one_state;
  return {finding, more};
}

TEST(Decision, AStepThatDiffersInFloat64IsAMistake) {
  const Decided mistake = stepped(open(), OneState{{steps(Steps::Show::kDifferInFloat64)}});
  EXPECT_EQ(mistake.row(), Row::kStepDiffersInFloat64);
  EXPECT_EQ(mistake.status(), Status::kDivergence);
  EXPECT_TRUE(mistake.end.is_mistake());
  EXPECT_FALSE(mistake.made(Trial::kAnotherState));
  EXPECT_TRUE(mistake.made(Trial::kOneStateThere));
}

TEST(Decision, AnUpdateThatDiffersFromEqualGradientsIsAMistake) {
  const Decided mistake = stepped(open(), OneState{{steps(Steps::Show::kUpdateDiffers, 2, Channel::kWeight)}});
  EXPECT_EQ(mistake.row(), Row::kUpdateDiffers);
  EXPECT_TRUE(mistake.end.is_mistake());
  EXPECT_FALSE(mistake.made(Trial::kAnotherState));
}

TEST(Decision, AStepThatDiffersFromOtherWeightsTooIsAMistake) {
  const Decided mistake = stepped(open(), OneState{{steps(Steps::Show::kDifferInFloat32)}},
                                  {{Trial::kAnotherState, AnotherState{{steps(Steps::Show::kDifferInFloat32)}}}});
  EXPECT_EQ(mistake.row(), Row::kStepDiffersAgain);
  EXPECT_TRUE(mistake.end.is_mistake());
}

TEST(Decision, AStepThatDiffersOnceStaysOpen) {
  const Decided once = stepped(open(), OneState{{steps(Steps::Show::kDifferInFloat32)}});
  EXPECT_EQ(once.row(), Row::kStepDiffersOnce);
  EXPECT_EQ(once.status(), Status::kInconclusive);
  EXPECT_NE(once.shown().find("kink of a ReLU"), std::string::npos);
}

TEST(Decision, ASmoothModelIsToldOfNoKink) {
  AnotherState smooth{.sides = {steps(Steps::Show::kAgree)}, .has_kinks = false};
  const Decided once =
      stepped(open(), OneState{{steps(Steps::Show::kDifferInFloat32)}}, {{Trial::kAnotherState, smooth}});
  EXPECT_EQ(once.row(), Row::kStepDiffersOnce);
  EXPECT_EQ(once.shown().find("kink"), std::string::npos);
  smooth.sides = {steps(Steps::Show::kSameWeights)};
  const Decided same =
      stepped(open(), OneState{{steps(Steps::Show::kDifferInFloat32)}}, {{Trial::kAnotherState, smooth}});
  EXPECT_EQ(same.shown().find("kink"), std::string::npos);
}

TEST(Decision, WithoutOtherWeightsItStaysOpen) {
  for (const Steps::Show shows : {Steps::Show::kSameWeights, Steps::Show::kUnfinished}) {
    const Decided none = stepped(open(), OneState{{steps(Steps::Show::kDifferInFloat32)}},
                                 {{Trial::kAnotherState, AnotherState{{steps(shows)}}}});
    EXPECT_EQ(none.row(), Row::kNoOtherWeights);
    EXPECT_EQ(none.status(), Status::kInconclusive);
  }
}

TEST(Decision, StepsThatDoNotFinishLeaveItOpen) {
  const Decided lost = stepped(open(), OneState{{steps(Steps::Show::kUnfinished)}});
  EXPECT_EQ(lost.row(), Row::kStepsUnfinished);
  EXPECT_EQ(lost.status(), Status::kInconclusive);
}

TEST(Decision, NaNInAStepLeavesItOpen) {
  const Decided hidden = stepped(open(), OneState{{steps(Steps::Show::kNotFinite)}});
  EXPECT_EQ(hidden.row(), Row::kNotFinite);
  EXPECT_EQ(hidden.status(), Status::kInconclusive);
}

TEST(Decision, NoStepComparedLeavesItOpen) {
  Steps none = steps(Steps::Show::kAgree);
  none.compared.compared = 0;
  EXPECT_EQ(stepped(open(), OneState{{none}}).row(), Row::kNoStepCompared);
  EXPECT_EQ(stepped(open(), OneState{{steps(Steps::Show::kIn16Bits)}}).row(), Row::kNoStepCompared);
  EXPECT_EQ(stepped(open(), OneState{{steps(Steps::Show::kAgree)}}).row(), Row::kStepsAgree);
}

TEST(Decision, StepsThatCannotBeTriedLeaveItOpen) {
  const Decided impossible = stepped(open(), Impossible{Trial::kOneState, "it saves at no step"});
  EXPECT_EQ(impossible.row(), Row::kStepsImpossible);
  EXPECT_EQ(impossible.status(), Status::kInconclusive);
  EXPECT_NE(impossible.shown().find("cannot be tried: it saves at no step"), std::string::npos);
}

TEST(Decision, OpenStepsOfAPairThatShrinksAreUndecided) {
  const std::vector<Fact> facts = {Replay{}, shrinks()};
  const Decision now = decide(open(), facts);
  EXPECT_EQ(now.row, Row::kStepsUndecided);
  EXPECT_EQ(now.result.status, Status::kInconclusive);
  EXPECT_EQ(now.next, Trial::kOneState);
}

TEST(Decision, AnEqualCheckStaysRedWhereStepsAreOpen) {
  const Decided once = stepped(equal(), OneState{{steps(Steps::Show::kDifferInFloat32)}});
  EXPECT_EQ(once.row(), Row::kStepDiffersOnce);
  EXPECT_EQ(once.status(), Status::kDivergence);
}

TEST(Decision, AMistakeThatIsKnownStaysWhereItsStepsAreLater) {
  InFloat64 facts = pair();
  facts.beyond = difference(2);
  for (const std::int64_t step : {1, 4}) {
    const Decided known =
        settled(open(), facts, {{Trial::kOneState, OneState{{steps(Steps::Show::kDifferInFloat64, step)}}}});
    EXPECT_EQ(known.end.at().step, std::min<std::int64_t>(step, 2));
    EXPECT_EQ(known.row(), step < 2 ? Row::kStepDiffersInFloat64 : Row::kBeyondRounding);
  }
}

TEST(Decision, AMistakeThatIsKnownStaysWhereItsStepsAgree) {
  InFloat64 facts = pair();
  facts.beyond = difference(2);
  const Decided known = settled(open(), facts);
  EXPECT_EQ(known.row(), Row::kBeyondRounding);
  EXPECT_EQ(known.status(), Status::kDivergence);
}

TEST(Decision, StepsThatCameOutAgainNeedNoMoreReplays) {
  const Fact mistake = OneState{{steps(Steps::Show::kDifferInFloat64)}};
  EXPECT_FALSE(stepped(equal(), mistake).made(Trial::kReplayOften));
  const OneStateThere lost{.closeup = {}, .runs = {{.run = "a/0", .finished = false}}};
  EXPECT_TRUE(stepped(equal(), mistake, {{Trial::kOneStateThere, lost}}).made(Trial::kReplayOften));
}

TEST(Decision, StepsThatDoNotReproduceAreNondeterminism) {
  const OneStateThere random{.closeup = {}, .runs = {{.run = "a/0"}, {.run = "b/0", .apart = difference(2)}}};
  const Decided varies =
      stepped(open(), OneState{{steps(Steps::Show::kDifferInFloat64)}}, {{Trial::kOneStateThere, random}});
  EXPECT_EQ(varies.row(), Row::kVaries);
  EXPECT_EQ(varies.class_(), Class::kNondeterminism);
}

TEST(Decision, AStepSeenCloselyAndMadeAgainNeedsNoOtherLook) {
  Steps seen = steps(Steps::Show::kDifferInFloat32);
  seen.closeup.element = compare::Element{};
  const AnotherState again{.sides = {seen}, .leader_repeats = true};
  const Fact differs = OneState{{steps(Steps::Show::kDifferInFloat32)}};
  EXPECT_FALSE(stepped(open(), differs, {{Trial::kAnotherState, again}}).made(Trial::kOneStateThere));
  const AnotherState once{.sides = {seen}, .leader_repeats = false};
  EXPECT_TRUE(stepped(open(), differs, {{Trial::kAnotherState, once}}).made(Trial::kOneStateThere));
}

// ---- the decision as a whole ----

TEST(Decision, ElementsOfTheReplayAreTheFindings) {
  Replay replay{.runs = {{.run = "a/0"}, {.run = "b/0"}}};
  replay.closeup.element = compare::Element{};
  EXPECT_TRUE(Decided(named("hw.sdc_rank"), {{Trial::kReplay, replay}}).end.at().element);
  EXPECT_FALSE(Decided(named("hw.sdc_rank")).end.at().element);
}

TEST(Decision, ElementsThatNoOrderOfAdditionsMakesAreNoRounding) {
  Replay replay{.runs = {{.run = "a/0"}, {.run = "b/0"}}};
  replay.closeup.is_no_rounding = true;
  EXPECT_TRUE(Decided(equal(), {{Trial::kReplay, replay}}).end.is_mistake());
  EXPECT_FALSE(Decided(equal()).end.is_mistake());
}

TEST(Decision, TheFirstDetourThatIsSeenStays) {
  Steps step = steps(Steps::Show::kDifferInFloat64);
  step.closeup.detour = compare::Detour{.ranks = {1}};
  OneStateThere there{.closeup = {}, .runs = {{.run = "a/0"}, {.run = "b/0"}}};
  there.closeup.detour = compare::Detour{.ranks = {0}};
  const Decided found = stepped(equal(), OneState{{step}}, {{Trial::kOneStateThere, there}});
  ASSERT_TRUE(found.made(Trial::kOneStateThere));
  EXPECT_EQ(found.end.at().detour.value().ranks, (std::vector<std::size_t>{1}));
}

TEST(Decision, TheDiagnosisAfterTheReplayCounts) {
  Divergence at = difference(3);
  at.class_ = Class::kSemantic;
  at.suspects = {{"recipe.changed", {"seen"}}};
  Finding finding = equal();
  finding.differs_slightly = false;
  const Decided told(finding, {{Trial::kDiagnosis, Diagnosis{at}}});
  EXPECT_EQ(told.row(), Row::kTold);
  EXPECT_FALSE(told.made(Trial::kReplayOften));
}

TEST(Decision, ABrokenTrialEndsIt) {
  const Decided broken(equal(), {{Trial::kFloat64, Broken{"no space left"}}});
  EXPECT_EQ(broken.tried.back(), Trial::kFloat64);
  EXPECT_NE(broken.shown().find("control runs: no space left"), std::string::npos);
  EXPECT_EQ(broken.status(), Status::kDivergence);
}

TEST(Decision, ATrialThatIsImpossibleIsSaidAndPassed) {
  const Decided passed(equal(), {{Trial::kReplay, Impossible{Trial::kReplay, "no such training"}}});
  EXPECT_NE(passed.shown().find("replay: cannot be tried: no such training"), std::string::npos);
  EXPECT_TRUE(passed.made(Trial::kFloat64));
}

TEST(Decision, TrialsGoForward) {
  for (const Finding& finding : {equal(), rounding(), open(), unknown(), named("hw.sdc_rank")}) {
    for (const Answers& answers : {Answers{}, fill(true, true), Answers{{Trial::kReplay, differs_once()}}}) {
      const Decided decided(finding, answers);
      EXPECT_TRUE(std::is_sorted(decided.tried.begin(), decided.tried.end()));
      EXPECT_EQ(std::set<Trial>(decided.tried.begin(), decided.tried.end()).size(), decided.tried.size());
    }
  }
}

TEST(Decision, EqualFactsGiveEqualDecisions) {
  const std::vector<Fact> facts = {Replay{}, Diagnosis{difference(3)}, shrinks()};
  const Decision one = decide(equal(), facts), other = decide(equal(), facts);
  EXPECT_EQ(one.next, other.next);
  EXPECT_EQ(one.row, other.row);
}

TEST(Rows, StandInTheirOrderAndInTheDocument) {
  std::ifstream file(source_root() / "docs/rounding.md");
  std::ostringstream text;
  text << file.rdbuf();
  std::size_t place = 0;
  for (std::size_t i = 0; i < rows().size(); ++i) {
    const RowInfo& row = rows()[i];
    EXPECT_EQ(static_cast<std::size_t>(row.row), i) << row.id;
    const std::string id(row.id), cell = "\n| <a id=\"" + id + "\"></a>`" + id + "` | ";
    EXPECT_GT(text.str().find(cell, place) + 1, place) << cell << " is missing, or comes too early";
    place = text.str().find(cell) + 1;
  }
}

}  // namespace
}  // namespace lockstep::test
