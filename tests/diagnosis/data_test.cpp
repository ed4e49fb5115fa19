// Causes in the data: each planted fault is named first, and what merely looks like it is not.
#include "harness/diagnosis/causes.h"
#include "harness/diagnosis/diagnosers.h"

#include "tests/support/tiny/suspected.h"

namespace lockstep::test {
namespace {

using diagnosis::suspects_in_data;
using trace::Channel;

std::string named(const Bench& bench, std::size_t check = 0) {
  return first_cause(suspects_of(bench, suspects_in_data, check));
}

/// One variant "a" of so many ranks, over two epochs and a bit; every check that looks at samples.
Json alone(std::int64_t ranks, std::int64_t samples, const Json& sampler = {{"kind", "distributed"}}) {
  return {{"world_size", ranks},
          {"train",
           {{"data", {{"size", samples}}}, {"batch", {{"global", 4 * ranks}}}, {"sampler", sampler}, {"steps", 20}}},
          {"variants", {{"a", Json::object()}}},
          {"checks", {{{"that", "covers"}}, {{"that", "ledger"}}, {{"that", "ranks_differ"}, {"on", {"samples"}}}}}};
}

/// The recipe of `changes`, and the runs of a trainer that follows `other`.
struct WithRunsOf : Bench {
  WithRunsOf(const Json& changes, const Json& other) : Bench(changes) { runs = Bench(other).runs; }
};

const Json kEqual = {{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}};

TEST(DataCauses, NotSharded) {
  for (const std::int64_t ranks : {2, 3, 4}) {
    for (const char* sampler : {"distributed", "contiguous"}) {
      const Json recipe = alone(ranks, 50, {{"kind", sampler}});
      for (const bool shuffle : {false, true}) {
        const WithRunsOf bench(recipe, alone(ranks, 50, {{"kind", "none"}, {"shuffle", shuffle}}));
        EXPECT_EQ(named(bench, 0), "data.not_sharded") << ranks << " " << shuffle;
        EXPECT_EQ(named(bench, 1), "data.not_sharded") << ranks << " " << shuffle;
        EXPECT_EQ(named(bench, 2), shuffle ? "" : "data.not_sharded") << ranks;
      }
    }
  }
}

/// Rank 2 has rank 0's share, and nobody has its own.
TEST(DataCauses, OneShareGivenTwice) {
  Bench bench(alone(3, 48));
  auto& run = bench.run("a");
  for (std::int64_t step = 0; step < 20; ++step) put(run, 2, step, at(run, 0, step, Channel::kSamples, "ids"));
  EXPECT_EQ(named(bench), "") << "rank 1 has a share of its own";
  EXPECT_EQ(named(bench, 2), "");
  for (std::int64_t step = 0; step < 20; ++step) put(run, 1, step, at(run, 0, step, Channel::kSamples, "ids"));
  EXPECT_EQ(named(bench), "data.not_sharded");
  EXPECT_EQ(named(bench, 2), "data.not_sharded");
  for (std::int64_t step = 0; step < 20; ++step) {
    for (std::int64_t rank = 0; rank < 3; ++rank)
      put(run, rank, step, integers(Channel::kSamples, "ids", {0, 0, 0, 0}));
  }
  EXPECT_EQ(named(bench), "") << "nobody takes the data";
}

/// LibTorch's sampler is seeded with the epoch alone; two trainings of one seed have one order rightly.
TEST(DataCauses, ASeedThatNobodyFollows) {
  for (const bool other : {true, false}) {
    Bench seeded(Json{{"train", {{"sampler", {{"kind", "distributed"}}}}},
                      {"variants", {{"a", Json::object()}, {"b", Json::object()}}},
                      {"checks", {{{"that", "differs"}, {"variants", {"a", "b"}}, {"on", {"samples"}}}}}});
    if (other) seeded.scenario.variants[1].train.seed.base = 7;
    EXPECT_EQ(named(seeded), other ? "data.seed_ignored" : "");
  }
}

/// Without a common divisor with 50: each gives another order of 50 samples.
const std::vector<std::int64_t> kFactors = {1, 3, 7, 9};

TEST(DataCauses, ARanksOwnPermutation) {
  for (const std::int64_t ranks : {2, 3, 4}) {
    Bench bench(alone(ranks, 50));
    bench.rerun("a", {.ids = [](auto, auto rank, auto& ids) {
                  for (std::int64_t& id : ids) id = (id * kFactors.at(static_cast<std::size_t>(rank)) + 13 * rank) % 50;
                }});
    EXPECT_EQ(named(bench), "data.permutation_rank_dependent") << ranks;
  }
}

/// Two ranks take four samples a step. Rank 1 takes so many of rank 0's samples, in the same places, from its third on.
std::string named_after_repeats(std::int64_t samples, std::int64_t steps, std::int64_t repeats) {
  Json recipe = alone(2, samples);
  recipe["train"]["steps"] = steps;
  Bench bench(recipe);
  bench.rerun("a", {.ids = [=](auto step, auto rank, auto& ids) {
                for (std::size_t i = 0; i < ids.size(); ++i) {
                  const std::int64_t place = 4 * step + static_cast<std::int64_t>(i);
                  const bool repeats_it = place >= 2 && place < 2 + repeats;
                  ids[i] = place + (rank == 1 && !repeats_it ? 4 * steps : 0);
                }
              }});
  return named(bench);
}

TEST(DataCauses, RanksOfTheirOwnOrdersShareATwentieth) {
  EXPECT_EQ(named_after_repeats(500, 12, 4), "") << "of 96; by chance they meet in 4.6";
  EXPECT_EQ(named_after_repeats(500, 12, 5), "data.permutation_rank_dependent");
}

TEST(DataCauses, RanksOfTheirOwnOrdersMeetTwoThirdsAsOftenAsByChance) {
  EXPECT_EQ(named_after_repeats(200, 20, 20), "") << "by chance they meet in 32";
  EXPECT_EQ(named_after_repeats(200, 20, 21), "data.permutation_rank_dependent");
}

/// Who takes what comes before the first sample follows no permutation of those that were to be taken.
TEST(DataCauses, SamplesBeforeTheFirst) {
  for (const std::int64_t start : {0, 5}) {
    const Json order = alone(3, 50 + start);
    Bench shuffled(order);
    shuffled.rerun("a", {.ids = [start](auto step, auto rank, auto& ids) {
                     for (std::size_t i = 0; i < ids.size(); ++i) {
                       const std::int64_t place = 4 * step + static_cast<std::int64_t>(i);
                       ids[i] = (kFactors.at(static_cast<std::size_t>(rank)) * (3 * place + rank) + 13 * rank) % 50 +
                                (rank == 1 ? 0 : start);
                     }
                   }});
    shuffled.scenario.variants[0].train.sampler.options = {{"kind", "elastic"}, {"start", start}, {"set_epoch", true}};
    shuffled.scenario.variants[0].train.sampler.kind = recipe::SamplerKind::kElastic;
    EXPECT_EQ(named(shuffled), start == 0 ? "data.permutation_rank_dependent" : "");
  }
}

/// One wrong map of all ids, on all ranks: all follow one permutation.
TEST(DataCauses, OneMapOnAllRanksIsNoPermutationOfTheirOwn) {
  const auto named_after = [](const auto& map) {
    Bench bench(alone(3, 50));
    bench.rerun("a", {.ids = [&](auto step, auto, auto& ids) {
                  for (std::int64_t& id : ids) id = map(step, id);
                }});
    return named(bench);
  };
  EXPECT_EQ(named_after([](auto, auto id) { return id / 2 * 2; }), "");
  EXPECT_EQ(named_after([](auto step, auto id) { return (id * id + 7 * step + 3) % 50; }), "");
  EXPECT_EQ(named_after([](auto step, auto id) { return step == 4 ? (id + 1) % 50 : id; }), "");
  EXPECT_EQ(named_after([](auto step, auto id) { return step >= 3 ? (id + 1) % 50 : id; }), "");
}

TEST(DataCauses, OneExchangedSampleIsNoPermutation) {
  for (const std::int64_t step : {1, 3, 7}) {
    Bench bench(alone(3, 48));
    auto ids = at(bench.run("a"), 2, step, Channel::kSamples, "ids").integers;
    ids[0] = at(bench.run("a"), 0, step, Channel::kSamples, "ids").integers[1];
    put(bench.run("a"), 2, step, integers(Channel::kSamples, "ids", ids));
    EXPECT_EQ(bench.check().status, Status::kDivergence);
    EXPECT_EQ(named(bench), "") << step;
  }
}

TEST(DataCauses, EpochNotAdvanced) {
  for (const std::int64_t ranks : {2, 3, 4}) {
    Bench bench(alone(ranks, 36, {{"kind", "distributed"}, {"set_epoch", false}}));
    EXPECT_EQ(named(bench), "data.epoch_not_advanced") << ranks;
  }
  Json recipe = kEqual;
  recipe["train"] = {{"data", {{"size", 36}}}, {"steps", 8}};
  recipe["variants"] = {{"a", Json::object()}, {"b", Json::object()}};
  Json forgets = recipe;
  forgets["variants"]["b"]["train"]["sampler"] = {{"kind", "distributed"}, {"set_epoch", false}};
  const WithRunsOf pair(recipe, forgets);
  EXPECT_EQ(named(pair), "data.epoch_not_advanced");
}

/// Two epochs have one order, as where half the number is given; the next ones have another.
TEST(DataCauses, AnOrderThatComesOnceMoreIsNotThatOfTheFirstEpochForEver) {
  Bench bench(alone(3, 36));
  auto& run = bench.run("a");
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    for (std::int64_t step = 0; step < 3; ++step)
      put(run, rank, step + 3, at(run, rank, step, Channel::kSamples, "ids"));
  }
  EXPECT_EQ(bench.check().status, Status::kDivergence);
  EXPECT_EQ(named(bench), "");
}

TEST(DataCauses, WhoNeverShufflesForgetsNoEpoch) {
  const WithRunsOf never(alone(3, 36), alone(3, 36, {{"kind", "distributed"}, {"shuffle", false}}));
  EXPECT_EQ(never.check().status, Status::kDivergence);
  EXPECT_EQ(named(never), "");
}

TEST(DataCauses, AnotherSeedOfTheSamplerHasNoName) {
  Json changes = alone(3, 36);
  changes["variants"] = {{"a", Json::object()},
                         {"b", {{"train", {{"sampler", {{"kind", "distributed"}, {"seed", 9}}}}}}}};
  changes["checks"] = {{{"that", "equal"}, {"variants", {"a", "b"}}}};
  EXPECT_EQ(named(Bench(changes)), "");
  changes["variants"]["b"]["world_size"] = 2;
  EXPECT_EQ(named(Bench(changes)), "");
}

/// "a" on one rank against "b" as it is told; both have the same global batch.
Json against_one(std::int64_t samples, const Json& b, std::int64_t ranks = 3) {
  Json changes = {{"train", {{"data", {{"size", samples}}}, {"batch", {{"global", 12}}}, {"steps", 9}}},
                  {"variants", {{"a", {{"world_size", 1}}}, {"b", {{"world_size", ranks}, {"train", b}}}}},
                  {"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}, {"on", {"samples"}}}}}};
  return changes;
}

TEST(DataCauses, Padding) {
  EXPECT_EQ(named(Bench(against_one(31, Json::object()))), "data.pad_duplicates");
  EXPECT_EQ(named(Bench(against_one(33, Json::object(), 4))), "data.pad_duplicates");
}

TEST(DataCauses, ADroppedTail) {
  const Json drops = {{"sampler", {{"kind", "distributed"}, {"drop_last", true}}}};
  EXPECT_EQ(named(Bench(against_one(31, drops))), "data.drop_last_mismatch");
  EXPECT_EQ(named(Bench(against_one(35, drops, 4))), "data.drop_last_mismatch");
  // By one run's promise: the recipe drops, the trainer does not, and the reverse.
  for (const bool asked : {false, true}) {
    const auto sampler = [](bool drop) { return Json{{"kind", "distributed"}, {"drop_last", drop}}; };
    const WithRunsOf bench(alone(3, 50, sampler(asked)), alone(3, 50, sampler(!asked)));
    EXPECT_EQ(named(bench, 0), "data.drop_last_mismatch") << asked;
    EXPECT_EQ(named(bench, 1), "data.drop_last_mismatch") << asked;
  }
}

/// All ranks lose a sample in the middle of an epoch, whose batches are short then, not its tail.
TEST(DataCauses, SamplesLostInTheMiddleAreNoTail) {
  for (const std::int64_t samples : {48, 51}) {
    Bench bench(alone(3, samples));
    bench.rerun("a", {.ids = [](auto step, auto, auto& ids) {
                  if (step == 1) ids.pop_back();
                }});
    EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kSamples, "ids", 0)) << samples;
    EXPECT_EQ(named(bench), "") << samples;
  }
}

/// In the last step of an epoch of whole batches, and of one that is filled up, rank 0 takes one sample less; or all.
TEST(DataCauses, SamplesLostInTheLastStepAreNoTail) {
  for (const std::int64_t samples : {48, 47}) {
    for (const bool all : {false, samples == 48}) {
      Json changes = against_one(samples, Json::object());
      changes["variants"]["a"]["world_size"] = 3;
      Bench bench(changes);
      for (std::int64_t rank = 0; rank < (all ? 3 : 1); ++rank) {
        auto ids = at(bench.run("b"), rank, 3, Channel::kSamples, "ids").integers;
        ids.pop_back();
        put(bench.run("b"), rank, 3, integers(Channel::kSamples, "ids", ids));
      }
      EXPECT_EQ(bench.check().status, Status::kDivergence);
      EXPECT_EQ(named(bench), "") << samples << " " << all;
    }
  }
}

TEST(DataCauses, BatchOfARankForThatOfAll) {
  for (const std::int64_t ranks : {2, 3}) {
    const Json changes = against_one(144, {{"batch", {{"global", 12 * ranks}}}}, ranks);
    EXPECT_EQ(named(Bench(changes)), "data.batch_semantics") << ranks;
    // One run against its recipe.
    Json recipe = alone(ranks, 144), wrong = alone(ranks, 144);
    wrong["train"]["batch"]["global"] = 4 * ranks * ranks;
    EXPECT_EQ(named(WithRunsOf(recipe, wrong), 1), "data.batch_semantics") << ranks;
  }
}

TEST(DataCauses, BlocksAgainstTurns) {
  for (const std::int64_t ranks : {2, 3, 4})
    EXPECT_EQ(named(Bench(against_one(48, {{"sampler", {{"kind", "contiguous"}}}}, ranks))), "data.batch_composition");
  const auto suspects = suspects_of(Bench(against_one(48, {{"sampler", {{"kind", "contiguous"}}}})), suspects_in_data);
  ASSERT_EQ(suspects.size(), 1U);
  EXPECT_EQ(diagnosis::find_cause(suspects[0].cause)->class_, scenario::Class::kExpected);
}

TEST(DataCauses, OtherContentAtAnotherWorldSize) {
  Json losses = against_one(48, Json::object());
  losses["checks"][0]["on"] = {"loss"};
  Bench bench(losses);
  EXPECT_EQ(named(bench), "");
  trace::RunTrace& run = bench.run("b");
  const auto x = at(run, 0, 0, Channel::kInput, "x");
  put(run, 0, 0,
      floats(Channel::kInput, "x", std::vector<float>(static_cast<std::size_t>(x.shape[0] * x.shape[1]), 0.5F),
             x.shape));
  put(run, 0, 0, test::scalar(Channel::kLoss, "reduced", 7));
  EXPECT_EQ(named(bench), "data.content");
}

TEST(DataCauses, OtherContentOfTheSameSamples) {
  Bench bench(kEqual);
  const auto x = at(bench.run("b"), 1, 2, Channel::kInput, "x");
  put(bench.run("b"), 1, 2, floats(Channel::kInput, "x", std::vector<float>(48, 0.5F), x.shape));
  EXPECT_EQ(named(bench), "data.content");
  for (const char* side : {"b", "a"}) {
    put(bench.run("b"), 1, 2, x);
    put(bench.run(side), 1, 2, at(bench.run(side), 1, 1, Channel::kInput, "x"));
    EXPECT_EQ(named(bench), "") << "the content of the samples before";
    put(bench.run("a"), 1, 2, x);
  }
  auto other_dtype = x;
  other_dtype.dtype = trace::DType::kFloat64;
  put(bench.run("b"), 1, 2, other_dtype);
  EXPECT_EQ(named(bench), "") << "another precision";
}

/// Ranks of "a" hold generators of their own; those of "b" all hold rank 0's.
class Augmented : public testing::Test {
 protected:
  Augmented() {
    for (std::int64_t step = -1; step < 4; ++step) {
      for (std::int64_t rank = 0; rank < 2; ++rank) {
        for (const char* side : {"a", "b"}) {
          const std::int64_t of = std::string(side) == "a" ? rank : 0;
          put(bench_.run(side), rank, step,
              text(Channel::kRng, "cpu", std::to_string(step) + "," + std::to_string(of)));
        }
      }
    }
  }

  void draw() {
    for (std::int64_t step = 0; step < 4; ++step) {
      auto& x = at(bench_.run("b"), 1, step, Channel::kInput, "x");
      x = floats(Channel::kInput, "x", std::vector<float>(48, 0.25F), x.shape);
    }
  }

  Bench bench_{{{"checks",
                 {{{"that", "equal"}, {"variants", {"a", "b"}}},
                  {{"that", "equal"}, {"variants", {"a", "b"}}, {"on", {"input"}}}}}}};
};

TEST_F(Augmented, AlikeOnAllRanks) {
  draw();
  EXPECT_EQ(named(bench_), "rng.augment_rank_clone") << "at the generators of the beginning";
  EXPECT_EQ(named(bench_, 1), "rng.augment_rank_clone");
}

TEST_F(Augmented, NothingWithoutOtherInputs) { EXPECT_EQ(named(bench_), ""); }

TEST(DataCauses, PaddingInAnEvaluation) {
  Json changes = {{"world_size", 3},
                  {"train", {{"evaluation", {{"samples", 10}, {"every", 1}, {"batch", 4}}}}},
                  {"variants", {{"a", Json::object()}, {"b", Json::object()}}},
                  {"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}};
  const auto metric = [](double accuracy, std::int64_t counted) {
    std::vector<trace::Record> records{number("accuracy", accuracy), integer("counted", counted)};
    for (trace::Record& record : records) record.channel = Channel::kMetric;
    if (counted == 0) records.pop_back();
    return records;
  };
  const auto with = [&](double accuracy, std::int64_t counted, double other, std::int64_t other_counted) {
    Bench bench(changes);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      for (const auto& [side, records] :
           {std::pair("a", metric(accuracy, counted)), {"b", metric(other, other_counted)}}) {
        auto& step = step_at(bench.run(side), rank, 2).records;
        step.insert(step.end(), records.begin(), records.end());
      }
    }
    return named(bench);
  };
  EXPECT_EQ(with(0.6, 10, 7.0 / 12, 12), "data.pad_duplicates");
  EXPECT_EQ(with(0.6, 0, 7.0 / 12, 0), "data.pad_duplicates");
  EXPECT_EQ(with(0.6, 10, 0.5, 10), "") << "another metric of as many";
  EXPECT_EQ(with(0.6, 10, 0.5, 17), "") << "no count that padding makes";
}

TEST(DataCauses, StandsWhatIsNotThere) {
  for (const Channel gone : {Channel::kSamples, Channel::kLedger, Channel::kRng, Channel::kInput}) {
    Bench bench(kEqual);
    erase_channel(bench.run("b"), gone);
    EXPECT_EQ(named(bench), "") << trace::name_of(gone);
  }
  Bench shorter(kEqual);
  for (const std::int64_t rank : {0, 1}) erase_step(shorter.run("b"), rank, 3);
  EXPECT_EQ(named(shorter), "");
  Bench empty(kEqual);
  for (trace::Trace& rank : empty.run("b").ranks) rank.steps.clear();
  EXPECT_EQ(named(empty), "");
}

}  // namespace
}  // namespace lockstep::test
