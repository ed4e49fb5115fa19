#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "tests/support/tiny/bench.h"

// Check "equal", and with it the walk that all comparisons share: what counts as a difference, and which one is first.

namespace lockstep::test {
namespace {

using trace::Channel;

Json equal_on(const Json& on = Json()) {
  Json check = {{"that", "equal"}, {"variants", {"a", "b"}}};
  if (!on.is_null()) check["on"] = on;
  return {{"checks", {check}}};
}

/// Name of a weight of the tiny training.
std::string weight_of(const trace::RunTrace& run) {
  for (const trace::Record& record : run.ranks[0].steps.at(1).records) {
    if (record.channel == Channel::kWeight) return record.name;
  }
  return "";
}

/// "a" on 2 ranks, "b" on 4, the same global batch.
Json equal_across_world_sizes(const Json& on) {
  Json changes = equal_on(on);
  changes["variants"] = {{"a", Json::object()}, {"b", {{"world_size", 4}}}};
  return changes;
}

TEST(Equal, AgreesOnEqualRuns) {
  const Bench bench(equal_on());
  EXPECT_TRUE(agrees(bench.check()));
}

TEST(Equal, ComparesEveryRecordOfEveryRank) {
  const Bench bench(equal_on());
  std::size_t records = 0;
  for (const trace::Trace& rank : bench.runs.at("a")[0].ranks) {
    for (const trace::Step& step : rank.steps) records += step.records.size();
  }
  EXPECT_EQ(bench.check().compared, records);
}

TEST(Equal, LeavesOutWhatAProgramsRecorderCountedOfItsCalls) {
  Bench bench(equal_on());
  step_at(bench.run("b"), 0, 1).records.push_back(integer("seen.clips", 1));
  EXPECT_TRUE(agrees(bench.check()));
  step_at(bench.run("b"), 0, 1).records.push_back(integer("clips", 1));
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kLedger, "clips", 0));
}

TEST(Equal, OtherCollectivesAloneChangeNoNumber) {
  const auto judged = [](const Json& on, bool other_weight) {
    Bench bench(equal_on(on));
    for (std::size_t rank = 0; rank < 2; ++rank) {
      std::vector<trace::Record>& records = step_at(bench.run("b"), rank, 1).records;
      const auto first = std::find_if(records.begin(), records.end(),
                                      [](const auto& one) { return one.channel == Channel::kCollective; });
      trace::Record more = *first;
      more.name = "more";
      records.push_back(more);
    }
    if (other_weight) spoil(bench.run("b"), 1, 2, Channel::kWeight, weight_of(bench.run("b")));
    return *bench.check().divergence;
  };
  const compare::Divergence alone = judged(Json(), false);
  EXPECT_EQ(alone.class_, scenario::Class::kExpected);
  EXPECT_TRUE(alone.cause.starts_with("all numbers are equal; ")) << alone.cause;
  EXPECT_EQ(judged({"collective"}, false).class_, scenario::Class::kSemantic) << "the check asks for them";
  EXPECT_EQ(judged(Json(), true).class_, scenario::Class::kSemantic);
}

TEST(Equal, NamesStepChannelTensorAndRankOfOneOtherDigest) {
  std::map<Channel, std::string> last_of;  // which the tiny training records
  Bench clean(equal_on());
  for (const trace::Record& record : step_at(clean.run("b"), 1, 2).records) last_of[record.channel] = record.name;
  EXPECT_GE(last_of.size(), 10U);
  for (const auto& [channel, name] : last_of) {
    Bench bench(equal_on());
    spoil(bench.run("b"), 1, 2, channel, name);
    EXPECT_TRUE(diverges_at(bench.check(), 2, channel, name, 1));
  }
}

TEST(Equal, TakesTheEarliestOfSeveralDifferences) {
  Bench bench(equal_on());
  spoil(bench.run("b"), 0, 2, Channel::kSamples, "ids");
  spoil(bench.run("b"), 0, 1, Channel::kWeight, "fc.weight");
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kWeight, "fc.weight", 0)) << "an earlier step goes first";
  spoil(bench.run("b"), 1, 1, Channel::kLoss, "local");
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kLoss, "local", 1)) << "then an earlier channel";
  spoil(bench.run("b"), 1, 1, Channel::kRng, "cpu");
  spoil(bench.run("b"), 0, 1, Channel::kRng, "cpu");
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kRng, "cpu", 0)) << "then a lower rank";
}

TEST(Equal, TakesAnEarlierTensorBeforeALowerRank) {
  Bench bench(equal_on());
  spoil(bench.run("b"), 0, 1, Channel::kWeight, "fc.weight");
  spoil(bench.run("b"), 1, 1, Channel::kWeight, "fc.bias");
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kWeight, "fc.bias", 1));
}

TEST(Equal, SeesAMissingStepOnEitherSide) {
  for (const char* side : {"a", "b"}) {
    Bench bench(equal_on());
    erase_step(bench.run(side), 1, 2);
    EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kSamples, "", 1)) << side;
  }
}

TEST(Equal, SeesAMissingAndAnExtraRecord) {
  Bench missing(equal_on());
  erase(missing.run("b"), 1, 3, Channel::kGradient, "fc.weight");
  EXPECT_TRUE(diverges_at(missing.check(), 3, Channel::kGradient, "fc.weight", 1));

  Bench extra(equal_on());
  step_at(extra.run("b"), 0, 3).records.push_back(floats(Channel::kBuffer, "mean", {1, 2}));
  EXPECT_TRUE(diverges_at(extra.check(), 3, Channel::kBuffer, "mean", 0));
}

TEST(Equal, SeesASecondRecordOfOneName) {
  Bench bench(equal_on());
  step_at(bench.run("b"), 0, 1).records.push_back(at(bench.run("b"), 0, 1, Channel::kWeight, "fc.bias"));
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kWeight, "fc.bias", 0));
  step_at(bench.run("a"), 0, 1).records.push_back(floats(Channel::kWeight, "fc.bias", {9, 9, 9, 9}));
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kWeight, "fc.bias", 0)) << "the second one has its own content";
}

TEST(Equal, SeesAnotherDtypeOrShapeUnderOneDigest) {
  Bench dtype(equal_on());
  at(dtype.run("b"), 0, 0, Channel::kWeight, "fc.weight").dtype = trace::DType::kFloat64;
  EXPECT_TRUE(diverges_at(dtype.check(), 0, Channel::kWeight, "fc.weight", 0));

  Bench shape(equal_on());
  at(shape.run("b"), 0, 0, Channel::kWeight, "fc.weight").shape = {8, 4};
  const auto result = shape.check();
  ASSERT_TRUE(diverges_at(result, 0, Channel::kWeight, "fc.weight", 0));
  EXPECT_EQ(result.divergence->relation, "float32[4,8] against float32[8,4]");
}

TEST(Equal, SaysWhichSideHoldsNoNumber) {
  std::vector<float> lost(32, 1);
  lost[5] = std::nanf("");
  const std::string said[] = {"NaN or infinity on the left", "NaN or infinity on the right"};
  for (const std::size_t side : {0, 1}) {
    Bench bench(equal_on());
    put(bench.run(side == 0 ? "a" : "b"), 0, 1, floats(Channel::kWeight, "fc.weight", lost, {4, 8}));
    const auto result = bench.check();
    ASSERT_TRUE(diverges_at(result, 1, Channel::kWeight, "fc.weight", 0));
    EXPECT_EQ(result.divergence->relation, said[side]);
  }
}

/// A sentence names what was compared, and how it came out; nothing else.
TEST(Equal, SaysOnlyWhatWasCompared) {
  const auto said = [](const Json& on, const char* also = nullptr, std::int64_t step = 1) {
    Bench bench(equal_on(on));
    put(bench.run("b"), 0, step, floats(Channel::kWeight, "fc.weight", std::vector<float>(32, 9), {4, 8}));
    if (also != nullptr) erase(bench.run("b"), 0, step, Channel::kWeight, "fc.weight");
    return bench.check().divergence->cause;
  };
  EXPECT_EQ(said({"gradient", "optimizer", "weight"}).find("equal gradients and optimizer states gave other weights"),
            0U)
      << said({"gradient", "optimizer", "weight"});
  EXPECT_EQ(said({"gradient", "weight"}).find("equal gradients gave other weights"), 0U);
  EXPECT_EQ(said({"weight"}).find("other weights; gradients and optimizer states were not compared"), 0U)
      << said({"weight"});
  EXPECT_EQ(said({"gradient", "optimizer", "weight"}, nullptr, -1).find("other weights before the first update"), 0U);
  EXPECT_EQ(said({"gradient", "weight"}, "erased"), "one side recorded what the other did not");
}

TEST(Equal, SaysNoFactorOfOne) {
  Bench bench(equal_on({"loss", "ledger"}));
  for (const std::int64_t rank : {0, 1}) put(bench.run("b"), rank, 1, number("learning_rate", std::nextafter(0.1, 1)));
  const std::string relation = bench.check().divergence->relation;
  EXPECT_EQ(relation.find("right = 1 x left"), std::string::npos) << relation;
  EXPECT_NE(relation.find("differs by about 1.4e-16 of its norm"), std::string::npos) << relation;
}

/// Without sketches, as goldens are.
TEST(Equal, ShowsTheRatioOfNormsToSevenDigits) {
  Bench bench(equal_on({"weight"}));
  trace::Record& left = at(bench.run("a"), 0, 1, Channel::kWeight, "fc.weight");
  trace::Record& right = at(bench.run("b"), 0, 1, Channel::kWeight, "fc.weight");
  right.digest.low ^= 1;
  left.sketch.reset();
  right.sketch.reset();
  left.norm = 1;
  for (const auto& [norm, text] : {std::pair{1 + 1e-8, "other bits; the norms agree to 7 digits"},
                                   {1 + 4e-6, "norm x 1.000004"},
                                   {1.23456789, "norm x 1.234568"}}) {
    right.norm = norm;
    EXPECT_EQ(bench.check().divergence->relation, text);
  }
}

TEST(Equal, LooksOnlyAtTheChannelsNamed) {
  Bench bench(equal_on({"gradient"}));
  spoil(bench.run("b"), 0, 0, Channel::kWeight, "fc.weight");
  EXPECT_TRUE(agrees(bench.check()));
  spoil(bench.run("b"), 0, 0, Channel::kGradient, "fc.weight");
  EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kGradient, "fc.weight", 0));
}

TEST(Equal, IsInconclusiveWhenANamedChannelIsRecordedByNobody) {
  EXPECT_TRUE(is_inconclusive(Bench(equal_on({"ema"})).check()));
  EXPECT_TRUE(is_inconclusive(Bench(equal_on({"weight", "ema"})).check(), "'ema'"));
}

TEST(Equal, IsInconclusiveOnEmptyTraces) {
  Bench no_records(equal_on());
  Bench no_steps(equal_on());
  for (const char* side : {"a", "b"}) {
    for (trace::Trace& rank : no_records.run(side).ranks) {
      for (trace::Step& step : rank.steps) step.records.clear();
    }
    for (trace::Trace& rank : no_steps.run(side).ranks) rank.steps.clear();
  }
  EXPECT_TRUE(is_inconclusive(no_records.check()));
  EXPECT_TRUE(is_inconclusive(no_steps.check()));
}

TEST(Equal, NeverAgreesWithoutACommonStep) {
  Bench bench(equal_on());
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    for (const std::int64_t step : {-1, 1, 3}) erase_step(bench.run("a"), rank, step);
    for (const std::int64_t step : {0, 2}) erase_step(bench.run("b"), rank, step);
  }
  EXPECT_TRUE(diverges_at(bench.check(), -1, Channel::kSamples, "", 0));
}

/// The channels of a pair are those that both record, and no third variant makes them fewer.
TEST(Equal, LosesNoChannelThatAThirdVariantDoesNotRecord) {
  Json changes = equal_on();
  changes["variants"] = {{"a", Json::object()},
                         {"b", Json::object()},
                         {"c", {{"train", {{"record", {{"channels", {"samples", "ledger"}}}}}}}}};
  for (const char* that : {"equal", "rounding"}) {
    changes["checks"][0] = {{"that", that}, {"variants", {"a", "b", "c"}}};
    Bench bench(changes);
    EXPECT_TRUE(agrees(bench.check())) << that;
    put(bench.run("b"), 1, 2, floats(Channel::kWeight, "fc.bias", {1, 2, 3, 4}));
    EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kWeight, "fc.bias", 1)) << that;
  }
}

TEST(Equal, IsInconclusiveWithOneVariantOnly) {
  Bench bench(equal_on());
  bench.scenario.checks[0].variants = {"a"};
  EXPECT_TRUE(is_inconclusive(bench.check()));
}

TEST(Equal, IgnoresWhatOnlySomeRanksRecordOnBothSides) {
  Bench bench(equal_on());
  for (const char* side : {"a", "b"}) erase(bench.run(side), 1, 2, Channel::kLedger, "epoch");
  for (const char* side : {"a", "b"}) erase_step(bench.run(side), 1, 3);
  EXPECT_TRUE(agrees(bench.check()));
}

TEST(Equal, ComparesTheBitsOfNan) {
  Bench bench(equal_on());
  const float nan = std::nanf("");
  put(bench.run("a"), 0, 1, floats(Channel::kWeight, "fc.bias", {nan, nan, nan, nan}));
  put(bench.run("b"), 0, 1, floats(Channel::kWeight, "fc.bias", {nan, nan, nan, nan}));
  EXPECT_TRUE(is_inconclusive(bench.check(), "NaN")) << "equal bits that prove nothing";
  put(bench.run("b"), 0, 1, floats(Channel::kWeight, "fc.bias", {nan, nan, nan, 0}));
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kWeight, "fc.bias", 0));
}

TEST(Equal, TellsRoundingFromAFault) {
  Bench rounding(equal_across_world_sizes({"weight"}));
  const auto result = rounding.check();
  ASSERT_EQ(result.status, Status::kDivergence) << "2 and 4 ranks add up in another order";
  EXPECT_EQ(result.divergence->class_, scenario::Class::kRounding);

  Bench fault(equal_on());
  fault.rerun("b", {.gradient = [](auto, auto&, auto& gradient) { gradient[0] *= 1.5F; }});
  EXPECT_EQ(fault.check().divergence->class_, scenario::Class::kSemantic);
}

TEST(EqualAcrossWorldSizes, TakesSamplesAsOneGlobalBatch) {
  Bench bench(equal_across_world_sizes({"samples"}));
  EXPECT_TRUE(agrees(bench.check()));
  // Two samples change ranks: the global batch is the same.
  auto first = at(bench.run("b"), 0, 1, Channel::kSamples, "ids").integers;
  auto second = at(bench.run("b"), 3, 1, Channel::kSamples, "ids").integers;
  std::swap(first[0], second[2]);
  put(bench.run("b"), 0, 1, integers(Channel::kSamples, "ids", first));
  put(bench.run("b"), 3, 1, integers(Channel::kSamples, "ids", second));
  EXPECT_TRUE(agrees(bench.check()));
}

TEST(EqualAcrossWorldSizes, SeesALostAndADoubledSample) {
  Bench lost(equal_across_world_sizes({"samples"}));
  lost.rerun("b", {.ids = [](auto step, auto rank, auto& ids) {
               if (step == 2 && rank == 3) ids.pop_back();
             }});
  EXPECT_TRUE(diverges_at(lost.check(), 2, Channel::kSamples, "ids", 0));

  Bench doubled(equal_across_world_sizes({"samples"}));
  doubled.rerun("b", {.ids = [](auto step, auto rank, auto& ids) {
                  if (step == 1 && rank == 2) ids[1] = ids[0];
                }});
  EXPECT_TRUE(diverges_at(doubled.check(), 1, Channel::kSamples, "ids", 0));
}

TEST(EqualAcrossWorldSizes, SeesARankThatTookNothing) {
  Bench bench(equal_across_world_sizes({"samples"}));
  erase(bench.run("b"), 3, 2, Channel::kSamples, "ids");
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kSamples, "ids", 0));
}

TEST(EqualAcrossWorldSizes, CannotCompareSamplesWithoutTheirIds) {
  Bench bench(equal_across_world_sizes({"samples"}));
  for (const char* side : {"a", "b"}) {
    for (trace::Trace& rank : bench.run(side).ranks) {
      for (trace::Step& step : rank.steps) {
        for (trace::Record& record : step.records) record.integers.clear();
      }
    }
  }
  EXPECT_TRUE(is_inconclusive(bench.check()));
}

TEST(EqualAcrossWorldSizes, ComparesOfTheLossWhatIsReduced) {
  Bench bench(equal_across_world_sizes({"loss"}));
  for (trace::RunTrace* run : {&bench.run("a"), &bench.run("b")}) {
    for (std::size_t rank = 0; rank < run->ranks.size(); ++rank) {
      for (std::int64_t step = 0; step < 4; ++step)
        put(*run, static_cast<std::int64_t>(rank), step, scalar(Channel::kLoss, "reduced", 0.5F));
    }
  }
  EXPECT_TRUE(agrees(bench.check()));
  spoil(bench.run("b"), 2, 1, Channel::kLoss, "reduced");
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kLoss, "reduced", 2)) << "extra ranks are held against rank 0";
}

TEST(EqualAcrossWorldSizes, IsInconclusiveOnChannelsOfEachRank) {
  Bench bench(equal_across_world_sizes({"samples"}));
  bench.scenario.checks[0].channels = {Channel::kInput};  // which the loader refuses
  EXPECT_TRUE(is_inconclusive(bench.check()));
  bench.scenario.checks[0].channels = {Channel::kSamples, Channel::kInput};
  EXPECT_TRUE(is_inconclusive(bench.check(), "'input'"));
}

}  // namespace
}  // namespace lockstep::test
