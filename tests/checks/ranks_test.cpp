#include "tests/support/tiny/bench.h"

// Checks within one variant: "repeatable", "ranks_agree", "ranks_differ".

namespace lockstep::test {
namespace {

using trace::Channel;

Json of_one(const Json& check, std::int64_t repeats = 1) {
  return {{"repeats", repeats}, {"world_size", 3}, {"variants", {{"a", Json::object()}}}, {"checks", {check}}};
}

TEST(Repeatable, AgreesOnEqualRepeats) { EXPECT_TRUE(agrees(Bench(of_one({{"that", "repeatable"}}, 3)).check())); }

TEST(Repeatable, NamesThePlaceInTheLastRepeat) {
  Bench bench(of_one({{"that", "repeatable"}}, 3));
  spoil(bench.run("a", 2), 1, 2, Channel::kGradientLocal, "fc.weight");
  const auto result = bench.check();
  ASSERT_TRUE(diverges_at(result, 2, Channel::kGradientLocal, "fc.weight", 1));
  EXPECT_EQ(result.divergence->class_, scenario::Class::kNondeterminism);
  EXPECT_EQ(result.divergence->right.name(), "a/2");
}

TEST(Repeatable, IsInconclusiveWithoutARepeat) {
  Bench bench(of_one({{"that", "repeatable"}}, 2));
  bench.runs.at("a").resize(1);
  EXPECT_TRUE(is_inconclusive(bench.check(), "only once"));
}

TEST(Repeatable, IsInconclusiveWhenNothingIsRecorded) {
  Bench bench(of_one({{"that", "repeatable"}, {"on", {"buffer"}}}, 2));
  EXPECT_TRUE(is_inconclusive(bench.check()));
}

TEST(RanksAgree, AgreesOnReplicatedChannels) { EXPECT_TRUE(agrees(Bench(of_one({{"that", "ranks_agree"}})).check())); }

TEST(RanksAgree, LeavesEachRankItsOwnCounts) {
  for (const char* name : {"samples_taken", "loss_denominator", "epoch"}) {
    const bool own = std::string(name) != "epoch";
    Json check = {{"that", "ranks_agree"}};
    for (const bool asked : {false, true}) {
      if (asked) check["on"] = {"ledger"};
      Bench bench(of_one(check));
      for (const std::int64_t rank : {0, 1, 2}) put(bench.run("a"), rank, 1, integer(name, 81 + rank));
      const auto result = bench.check();
      EXPECT_TRUE(own && !asked ? agrees(result) : diverges_at(result, 1, Channel::kLedger, name, 1)) << name << asked;
    }
  }
}

/// A model of transformers is told the tokens that its rank's loss is divided by, where ranks do not add them up.
TEST(RanksAgree, LeavesAProgramsRanksTheirOwnDenominators) {
  Bench bench(of_one({{"that", "ranks_agree"}}));
  for (const std::int64_t rank : {0, 1, 2})
    step_at(bench.run("a"), rank, 1).records.push_back(number("num_items_in_batch", 81 + static_cast<double>(rank)));
  EXPECT_TRUE(agrees(bench.check()));
}

TEST(RanksAgree, NamesTheRankThatIsApart) {
  for (const Channel channel : {Channel::kGradient, Channel::kWeight}) {
    Bench bench(of_one({{"that", "ranks_agree"}}));
    spoil(bench.run("a"), 2, 1, channel, "fc.weight");
    const auto result = bench.check();
    ASSERT_TRUE(diverges_at(result, 1, channel, "fc.weight", 2));
    EXPECT_EQ(result.divergence->right.name(), "a/0 rank 2");
  }
}

TEST(RanksAgree, NamesRank0WhenTheOthersAgreeAgainstIt) {
  Bench bench(of_one({{"that", "ranks_agree"}}));
  spoil(bench.run("a"), 0, 1, Channel::kWeight, "fc.weight");
  const auto result = bench.check();
  ASSERT_TRUE(diverges_at(result, 1, Channel::kWeight, "fc.weight", 0));
  EXPECT_EQ(result.divergence->left.name(), "a/0 rank 1");
  EXPECT_EQ(result.divergence->right.name(), "a/0 rank 0");
}

TEST(RanksAgree, NamesTheRankThatKeptItsLocalGradient) {
  for (const std::size_t rank : {0, 1}) {
    Bench bench(of_one({{"that", "ranks_agree"}}));
    bench.run("a").ranks.resize(2);
    trace::RunTrace& run = bench.run("a");
    for (trace::Trace& trace : run.ranks) trace.world_size = 2;
    trace::Record kept = *run.ranks[rank].find(2)->find(Channel::kGradientLocal, "fc.weight");
    kept.channel = Channel::kGradient;
    put(run, static_cast<std::int64_t>(rank), 2, kept);
    EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kGradient, "fc.weight", static_cast<std::int64_t>(rank)));
  }
}

TEST(RanksAgree, SeesAForgottenBroadcastInTheInitialState) {
  Bench bench(of_one({{"that", "ranks_agree"}}));
  spoil(bench.run("a"), 1, -1, Channel::kWeight, "fc.bias");
  EXPECT_TRUE(diverges_at(bench.check(), -1, Channel::kWeight, "fc.bias", 1));
}

TEST(RanksAgree, SeesAnotherCollectiveAndARankThatStopsEarly) {
  Bench collective(of_one({{"that", "ranks_agree"}}));
  put(collective.run("a"), 1, 2, text(Channel::kCollective, "0", "allreduce Float[35] SUM"));
  EXPECT_TRUE(diverges_at(collective.check(), 2, Channel::kCollective, "0", 1));

  Bench stops(of_one({{"that", "ranks_agree"}}));
  erase_step(stops.run("a"), 2, 3);
  EXPECT_TRUE(diverges_at(stops.check(), 3, Channel::kGradient, "", 2));
}

TEST(RanksAgree, ComparesChannelsOfEachRankWhenNamed) {
  EXPECT_TRUE(diverges_at(Bench(of_one({{"that", "ranks_agree"}, {"on", {"samples"}}})).check(), 0, Channel::kSamples,
                          "ids", 1));
}

TEST(RanksAgree, IsInconclusiveOnOneRank) {
  Bench bench(of_one({{"that", "ranks_agree"}}));
  bench.run("a").ranks.resize(1);
  EXPECT_TRUE(is_inconclusive(bench.check()));
}

TEST(RanksAgree, IsInconclusiveWhenNobodyRecordsTheChannel) {
  EXPECT_TRUE(is_inconclusive(Bench(of_one({{"that", "ranks_agree"}, {"on", {"ema"}}})).check()));
  EXPECT_TRUE(
      is_inconclusive(Bench(of_one({{"that", "ranks_agree"}, {"on", {"weight", "buffer"}}})).check(), "'buffer'"));
}

TEST(RanksAgree, JudgesEveryVariantAndRepeat) {
  Bench bench({{"repeats", 2}, {"checks", {{{"that", "ranks_agree"}}}}});
  spoil(bench.run("b", 1), 1, 3, Channel::kOptimizer, "fc.bias.momentum_buffer");
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kOptimizer, "fc.bias.momentum_buffer", 1));
}

TEST(RanksAgree, IsInconclusiveWhenOneVariantOfSeveralHoldsNothing) {
  const Json changes = {{"checks", {{{"that", "ranks_agree"}}}}};
  Bench bench(changes);
  for (trace::Trace& rank : bench.run("b").ranks) rank.steps.clear();
  EXPECT_TRUE(is_inconclusive(bench.check()));
}

/// A variant "a" that records everything, and "b" that records little.
Json with_a_narrow_one(const Json& check, std::int64_t repeats = 1) {
  const Json narrow = {{"train", {{"record", {{"channels", {"samples", "ledger"}}}}}}};
  return {{"repeats", repeats}, {"variants", {{"a", Json::object()}, {"b", narrow}}}, {"checks", {check}}};
}

TEST(ChecksOfOneRun, LoseNoChannelThatAnotherVariantDoesNotRecord) {
  Bench ranks(with_a_narrow_one({{"that", "ranks_agree"}}));
  EXPECT_TRUE(agrees(ranks.check()));
  spoil(ranks.run("a"), 1, 1, Channel::kGradient, "fc.weight");
  EXPECT_TRUE(diverges_at(ranks.check(), 1, Channel::kGradient, "fc.weight", 1));

  Bench repeats(with_a_narrow_one({{"that", "repeatable"}}, 2));
  EXPECT_TRUE(agrees(repeats.check()));
  spoil(repeats.run("a", 1), 0, 1, Channel::kGradient, "fc.weight");
  EXPECT_TRUE(diverges_at(repeats.check(), 1, Channel::kGradient, "fc.weight", 0));
}

TEST(RanksAgree, LeavesVariantsOfOneRankOut) {
  const Json variants = {{"a", {{"world_size", 1}}}, {"b", Json::object()}};
  const Bench agree({{"variants", variants}, {"checks", {{{"that", "ranks_agree"}}}}});
  EXPECT_TRUE(agrees(agree.check()));
  const Bench differ({{"variants", variants}, {"checks", {{{"that", "ranks_differ"}, {"on", {"samples"}}}}}});
  EXPECT_TRUE(agrees(differ.check()));
}

Json differ_on(const Json& on) { return of_one({{"that", "ranks_differ"}, {"on", on}}); }

TEST(RanksDiffer, AgreesOnSharesOfTheirOwn) {
  EXPECT_TRUE(agrees(Bench(differ_on({"samples", "input", "gradient.local"})).check()));
}

TEST(RanksDiffer, NamesTheRankThatRepeatsAnother) {
  Bench bench(differ_on({"samples"}));
  put(bench.run("a"), 2, 1, at(bench.run("a"), 1, 1, Channel::kSamples, "ids"));
  const auto result = bench.check();
  ASSERT_TRUE(diverges_at(result, 1, Channel::kSamples, "", 2));
  EXPECT_EQ(result.divergence->left.name(), "rank 1");
}

TEST(RanksDiffer, TakesTheEarlierStepBeforeTheEarlierChannel) {
  Bench bench(differ_on({"samples", "gradient.local"}));
  put(bench.run("a"), 1, 3, at(bench.run("a"), 0, 3, Channel::kSamples, "ids"));
  for (const char* name : {"fc.bias", "fc.weight"})
    put(bench.run("a"), 2, 2, at(bench.run("a"), 0, 2, Channel::kGradientLocal, name));
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kGradientLocal, "", 2));
}

TEST(RanksDiffer, SeesReplicatedContent) {
  EXPECT_TRUE(diverges_at(Bench(differ_on({"weight"})).check(), -1, Channel::kWeight, "", 1));
}

TEST(RanksDiffer, SeesARankThatRecordsNothing) {
  Bench bench(differ_on({"samples"}));
  erase(bench.run("a"), 1, 2, Channel::kSamples, "ids");
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kSamples, "", 1));
}

TEST(RanksDiffer, IsInconclusiveOnOneRankAndOnNothing) {
  Bench one_rank(differ_on({"samples"}));
  one_rank.run("a").ranks.resize(1);
  EXPECT_TRUE(is_inconclusive(one_rank.check()));
  EXPECT_TRUE(is_inconclusive(Bench(differ_on({"ema"})).check()));
  EXPECT_TRUE(is_inconclusive(Bench(differ_on({"samples", "ema"})).check(), "'ema'"));
}

}  // namespace
}  // namespace lockstep::test
