// How float64 and single steps settle a finding where several pairs or sides say different things.
#include <gtest/gtest.h>

#include "tests/decision/made_facts.h"

namespace lockstep::test {
namespace {

Decided settled(const Finding& finding, std::vector<InFloat64> pairs, Answers more = {}) {
  more[Trial::kFloat64] = Float64{.at_finding = pair(kShrinks), .pairs = std::move(pairs)};
  return {finding, more};
}

InFloat64 not_finite() {
  InFloat64 facts = pair();
  facts.is_finite = false;
  return facts;
}

InFloat64 silent() {
  InFloat64 facts = pair();
  facts.silent = "a training did not finish";
  return facts;
}

InFloat64 differs_at(std::int64_t step) {
  InFloat64 facts = pair();
  facts.judged.first = difference(step);
  return facts;
}

// ---- several pairs ----

TEST(Settling, EveryPairIsJudged) {
  EXPECT_EQ(settled(open(), {pair(), pair()}).status(), Status::kAgree);
  const Decided second = settled(open(), {pair(), differs_at(4)});
  EXPECT_EQ(second.row(), Row::kPairsDiffer);
  EXPECT_EQ(second.status(), Status::kDivergence);
}

TEST(Settling, APairThatIsSilentHidesNoOther) {
  EXPECT_EQ(settled(open(), {silent(), pair()}).row(), Row::kFloat64Silent);
  EXPECT_EQ(settled(open(), {silent(), differs_at(4)}).row(), Row::kPairsDiffer);
  EXPECT_EQ(settled(open(), {not_finite(), differs_at(4)}).row(), Row::kPairsDiffer);
}

TEST(Settling, WhatDiffersBeforeNaNIsAMistake) {
  InFloat64 facts = not_finite();
  EXPECT_EQ(settled(open(), {facts}).row(), Row::kNotFinite);
  EXPECT_EQ(settled(open(), {facts}).status(), Status::kInconclusive);
  facts.judged.first = difference(4);
  EXPECT_EQ(settled(open(), {facts}).row(), Row::kPairsDiffer);
  EXPECT_EQ(settled(open(), {facts}).status(), Status::kDivergence);
}

TEST(Settling, NaNOfOnePairLeavesItOpenWhateverTheOthersShow) {
  EXPECT_EQ(settled(open(), {not_finite(), pair()}).row(), Row::kNotFinite);
  EXPECT_EQ(settled(open(), {pair(), not_finite()}).status(), Status::kInconclusive);
}

TEST(Settling, AnOpenCheckHasNoFindingToPass) {
  InFloat64 facts = differs_at(4);
  facts.mistake = difference(5);
  EXPECT_EQ(settled(open(), {facts}).end.at().step, 4);
}

TEST(Settling, RoundingBeforeNaNIsNoDivergence) {
  const Decided late = settled(rounding(), {not_finite()});
  EXPECT_EQ(late.row(), Row::kNotFinite);
  EXPECT_EQ(late.status(), Status::kInconclusive);
  EXPECT_EQ(late.class_(), Class::kUndecided);
}

TEST(Settling, RoundingWhoseTrainingsCannotBeSettledIsNoDivergence) {
  const Decided lost = settled(rounding(), {silent()});
  EXPECT_EQ(lost.row(), Row::kFloat64Silent);
  EXPECT_EQ(lost.status(), Status::kInconclusive);
}

TEST(Settling, ARedCheckWhoseTrainingsDifferIsRedThere) {
  const Decided differs = settled(rounding(), {differs_at(8)});
  EXPECT_EQ(differs.row(), Row::kPairsDiffer);
  EXPECT_EQ(differs.status(), Status::kDivergence);
  EXPECT_EQ(differs.end.at().step, 8);
  EXPECT_NE(differs.class_(), Class::kRounding);
}

TEST(Settling, TheHorizonBeginsAtItsStep) {
  InFloat64 facts = differs_at(8);
  facts.in_16_bits = true;  // no single steps
  facts.horizon = 8;
  EXPECT_EQ(settled(open(), {facts}).row(), Row::kHorizon);
  facts.horizon = 9;
  EXPECT_EQ(settled(open(), {facts}).row(), Row::kPairsDiffer);
}

TEST(Settling, BehindTheHorizonNothingIsBeyondRounding) {
  InFloat64 facts = differs_at(8);
  facts.horizon = 6;
  facts.beyond = difference(9);
  EXPECT_EQ(settled(open(), {facts}).row(), Row::kStepsAgree);
  facts.judged.first.reset();
  EXPECT_EQ(settled(open(), {facts}).row(), Row::kBeyondRounding);
}

TEST(Settling, NothingIsSettledWhereAReplayIsLost) {
  const Replay lost{.runs = {{.run = "a/0"}, {.run = "b/0", .finished = false}}};
  const Decided unsettled = settled(open(), {differs_at(4)}, {{Trial::kReplay, lost}});
  EXPECT_EQ(unsettled.status(), Status::kInconclusive);
  EXPECT_EQ(unsettled.row(), Row::kReplayLost);
}

TEST(Settling, RanksApartAreNoRounding) {
  InFloat64 facts = pair();
  facts.ranks_apart = difference(2);
  EXPECT_TRUE(settled(open(), {facts}).end.is_mistake());
  EXPECT_EQ(settled(open(), {facts}).status(), Status::kDivergence);
}

TEST(Settling, AProgramsRedCheckThatIsSmallAgreesWithoutSteps) {
  Finding program = rounding();
  program.can_step_alone = false;
  EXPECT_EQ(settled(open(), {pair()}).status(), Status::kAgree);
  const Answers impossible = {{Trial::kOneState, Impossible{Trial::kOneState, "a program of its own"}}};
  Finding unsteppable = open();
  unsteppable.can_step_alone = false;
  EXPECT_EQ(settled(unsteppable, {pair()}, impossible).status(), Status::kAgree);
  EXPECT_EQ(settled(unsteppable, {pair()}).row(), Row::kAllShrink);
  EXPECT_EQ(settled(program, {pair()}, impossible).row(), Row::kStepsImpossible);
  EXPECT_EQ(settled(program, {pair()}, impossible).status(), Status::kInconclusive);
}

TEST(Settling, AnOpenCheckKeepsWhatItSaidOfThePlace) {
  Finding finding = open();
  finding.result.next = "lower the learning rate";
  const Decided late = settled(finding, {not_finite()});
  EXPECT_EQ(late.end.result.why, "rounding has grown; NaN or infinity hides what follows: float64 cannot decide");
  EXPECT_EQ(late.end.result.next, "lower the learning rate");
}

// ---- the place of the finding ----

Decided climbed(const Finding& finding, const InFloat64& sides) {
  return {finding, {{Trial::kFloat64, Float64{.at_finding = sides, .pairs = {pair()}}}}};
}

TEST(Climbing, AMistakeThatBeginsEarlierInTheStepIsFoundThere) {
  InFloat64 sides = pair(kStays);
  sides.mistake = difference(3, Channel::kGradient);
  const Decided same = climbed(rounding(), sides);
  EXPECT_EQ(same.row(), Row::kStaysInFloat64);  // it begins where it is seen
  sides.mistake = difference(3, Channel::kLoss);
  EXPECT_EQ(climbed(rounding(), sides).row(), Row::kBeginsEarlier);
  EXPECT_EQ(climbed(rounding(), sides).end.at().channel, Channel::kLoss);
}

TEST(Climbing, OnlyACheckUpToRoundingBeginsWithinTheBound) {
  InFloat64 sides = pair(kStays);
  sides.mistake = difference(1);
  EXPECT_EQ(climbed(equal(), sides).end.at().step, 3);
  EXPECT_EQ(climbed(rounding(), sides).end.at().step, 1);
}

TEST(Climbing, OtherChecksPassNoRounding) {
  InFloat64 sides = pair(kShrinks);
  sides.mistake = difference(5);
  EXPECT_EQ(climbed(equal(), sides).row(), Row::kBehindRounding);
  EXPECT_EQ(climbed(red(), sides).end.at().step, 3);
}

TEST(Climbing, ANamedMistakeIsNotCalledRounding) {
  Finding slight = named("hw.sdc_rank");
  slight.differs_slightly = true;
  const Decided shrunk = climbed(slight, pair(kShrinks));
  EXPECT_EQ(shrunk.class_(), Class::kSemantic);
}

// ---- single steps ----

Answers stepping(std::vector<Steps> sides, Answers more = {}) {
  more[Trial::kOneState] = OneState{std::move(sides)};
  return more;
}

TEST(Stepping, ASideThatIsOpenHidesNoMistakeOfAnother) {
  Finding three = open();
  three.sides = {"a", "c", "b"};
  Steps unfinished = steps(Steps::Show::kUnfinished);
  unfinished.side = "c";
  const Steps mistake = steps(Steps::Show::kDifferInFloat64);
  EXPECT_EQ(Decided(three, stepping({unfinished, mistake})).row(), Row::kStepDiffersInFloat64);
  EXPECT_EQ(Decided(three, stepping({steps(Steps::Show::kNotFinite), steps(Steps::Show::kUpdateDiffers)})).row(),
            Row::kUpdateDiffers);
  EXPECT_EQ(Decided(three, stepping({unfinished, steps(Steps::Show::kAgree)})).row(), Row::kStepsUnfinished);
}

TEST(Stepping, TheOrderOfSidesDoesNotMatter) {
  Finding three = equal();
  three.sides = {"a", "c", "b"};
  Steps lost = steps(Steps::Show::kNotFinite);
  lost.side = "c";
  const Steps mistake = steps(Steps::Show::kDifferInFloat32);
  Answers again = {{Trial::kAnotherState, AnotherState{.sides = {mistake}}}};
  EXPECT_EQ(Decided(three, stepping({lost, mistake}, again)).row(), Row::kStepDiffersAgain);
  EXPECT_EQ(Decided(three, stepping({mistake, lost}, again)).row(), Row::kStepDiffersAgain);
}

TEST(Stepping, NaNLeavesAnEqualCheckUndecided) {
  const Decided lost(equal(), stepping({steps(Steps::Show::kNotFinite)}));
  EXPECT_EQ(lost.row(), Row::kNotFinite);
  EXPECT_EQ(lost.class_(), Class::kUndecided);
}

TEST(Stepping, AStepThatDiffersOnceIsNotCalledRounding) {
  const Answers differs = stepping({steps(Steps::Show::kDifferInFloat32)});
  const Decided once(equal(), differs);
  EXPECT_EQ(once.row(), Row::kStepDiffersOnce);
  EXPECT_EQ(once.status(), Status::kDivergence);
  EXPECT_EQ(once.class_(), Class::kUndecided);
  EXPECT_EQ(once.shown().find("could be compared"), std::string::npos) << once.shown();
  Answers loaded = differs;
  loaded[Trial::kAnotherState] = AnotherState{.sides = {steps(Steps::Show::kSameWeights)}};
  EXPECT_EQ(Decided(equal(), loaded).row(), Row::kNoOtherWeights);
  EXPECT_EQ(Decided(equal(), loaded).class_(), Class::kUndecided);
  EXPECT_EQ(Decided(equal()).class_(), Class::kRounding);
}

TEST(Stepping, AnUnfinishedTrialFromOtherWeightsIsNone) {
  Answers answers = stepping({steps(Steps::Show::kDifferInFloat32)});
  answers[Trial::kAnotherState] = AnotherState{.sides = {steps(Steps::Show::kUnfinished)}};
  const Decided open_step(open(), answers);
  EXPECT_EQ(open_step.row(), Row::kNoOtherWeights);
  EXPECT_NE(open_step.shown().find("b does not finish with other weights"), std::string::npos);
}

TEST(Stepping, AnOpenStepLeavesNoClass) {
  Answers answers = stepping({steps(Steps::Show::kNotFinite)});
  const Decided late(rounding(), answers);
  EXPECT_EQ(late.row(), Row::kNotFinite);
  EXPECT_EQ(late.class_(), Class::kUndecided);
  EXPECT_EQ(late.end.result.why, "NaN or infinity hides every difference");
}

TEST(Stepping, TheMistakeIsBetweenTheFirstSideAndTheOneThatDiffers) {
  Finding three = open();
  three.sides = {"a", "c", "b"};
  Steps second = steps(Steps::Show::kDifferInFloat64);
  second.side = "c";
  const Decided found(three, stepping({second}));
  EXPECT_EQ(found.end.at().left.run, "a/0");
  EXPECT_EQ(found.end.at().right.run, "c/0");
}

TEST(Stepping, AMistakeThatIsSeenEarlierStays) {
  InFloat64 sides = pair(kShrinks);
  sides.beyond = difference(6);
  Answers answers = {{Trial::kFloat64, Float64{.at_finding = sides, .pairs = {}}}};
  answers = stepping({steps(Steps::Show::kDifferInFloat64, 8)}, answers);
  EXPECT_EQ(Decided(equal(), answers).end.at().step, 6);
  answers = stepping({steps(Steps::Show::kDifferInFloat64, 5)}, answers);
  EXPECT_EQ(Decided(equal(), answers).end.at().step, 5);
  answers = stepping({steps(Steps::Show::kDifferInFloat64, 6)}, answers);
  EXPECT_EQ(Decided(equal(), answers).row(), Row::kStepDiffersInFloat64) << "in one step, the single step knows more";
}

// ---- chance ----

TEST(Chance, NondeterminismIsNotTriedInFloat64) {
  Finding random = equal();
  random.result.divergence->class_ = Class::kNondeterminism;
  EXPECT_FALSE(Decided(random).made(Trial::kFloat64));
  EXPECT_TRUE(Decided(equal()).made(Trial::kFloat64));
}

TEST(Chance, ALostReplayStillShowsASideThatDiffers) {
  Replay both = differs_once();
  both.runs[0].finished = false;
  const Decided differs(equal(), {{Trial::kReplay, both}});
  EXPECT_EQ(differs.row(), Row::kReplayDiffers);
  EXPECT_EQ(differs.class_(), Class::kNondeterminism);
}

TEST(Chance, AReplayOfNothingSaysNothing) {
  EXPECT_EQ(Decided(equal(), {{Trial::kReplay, Replay{}}}).end.again, Again::kNotTried);
}

TEST(Chance, ElementsOfAReplayThatDiffersAreNotTheFindings) {
  Replay differs = differs_once();
  differs.closeup.element = compare::Element{};
  EXPECT_FALSE(Decided(equal(), {{Trial::kReplay, differs}}).end.at().element);
}

TEST(Chance, RoundingThatDoesNotReproduceIsNondeterminism) {
  Finding rounded = equal();
  rounded.result.divergence->class_ = Class::kRounding;
  const Decided differs(rounded, {{Trial::kReplay, differs_once()}});
  EXPECT_EQ(differs.class_(), Class::kNondeterminism);
}

TEST(Chance, OneLostReplayOfManyHidesNoOther) {
  const ReplayOften often{.runs = {{.run = "a/0", .finished = false}, {.run = "b/0", .apart = difference(2)}}};
  const Decided random(named("hw.sdc_rank"), {{Trial::kReplayOften, often}});
  EXPECT_EQ(random.row(), Row::kVaries);
}

}  // namespace
}  // namespace lockstep::test
