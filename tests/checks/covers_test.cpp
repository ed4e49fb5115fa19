#include "harness/laws/promise.h"

#include "tests/support/tiny/bench.h"

// Check "covers": every epoch takes every sample as often as its sampler promises.

namespace lockstep::test {
namespace {

using trace::Channel;

/// `samples` on 3 ranks, 4 a rank and step, in enough steps for two epochs and a bit.
Json covered(std::int64_t samples, const Json& sampler = {{"kind", "distributed"}}, std::int64_t steps = 0) {
  const std::int64_t each = sampler["kind"] == "none" ? samples : (samples + 2) / 3;
  return {{"world_size", 3},
          {"train",
           {{"data", {{"size", samples}}},
            {"batch", {{"global", 12}}},
            {"sampler", sampler},
            {"steps", steps > 0 ? steps : 2 * ((each + 3) / 4) + 1}}},
          {"variants", {{"a", Json::object()}}},
          {"checks", {{{"that", "covers"}}}}};
}

/// Another id in one place of the trace alone.
void replace_id(trace::RunTrace& run, std::int64_t rank, std::int64_t step, std::size_t position, std::int64_t id) {
  auto ids = at(run, rank, step, Channel::kSamples, "ids").integers;
  ids.at(position) = id;
  put(run, rank, step, integers(Channel::kSamples, "ids", ids));
}

std::int64_t id_at(trace::RunTrace& run, std::int64_t rank, std::int64_t step, std::size_t position) {
  return at(run, rank, step, Channel::kSamples, "ids").integers.at(position);
}

TEST(Covers, AgreesOnEverySampler) {
  for (const std::int64_t samples : {24, 30, 31, 32, 35}) {
    for (const char* kind : {"distributed", "contiguous", "none"}) {
      EXPECT_TRUE(agrees(Bench(covered(samples, {{"kind", kind}})).check())) << samples << " " << kind;
      EXPECT_TRUE(agrees(Bench(covered(samples, {{"kind", kind}, {"shuffle", false}})).check()))
          << samples << " " << kind;
      if (std::string(kind) == "none") continue;
      EXPECT_TRUE(agrees(Bench(covered(samples, {{"kind", kind}, {"drop_last", true}})).check()))
          << samples << " " << kind;
    }
  }
}

TEST(Covers, SeesADoubledSample) {
  Bench bench(covered(24));
  replace_id(bench.run("a"), 2, 1, 3, id_at(bench.run("a"), 0, 0, 0));
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kSamples, "ids", 2));
}

TEST(Covers, SeesADoubledSampleInTheSecondEpoch) {
  Bench bench(covered(24));
  replace_id(bench.run("a"), 1, 3, 0, id_at(bench.run("a"), 0, 2, 1));
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kSamples, "ids", 1));
}

TEST(Covers, SeesADoubledSampleInAnEpochThatIsNotFinished) {
  Bench last(covered(24));
  replace_id(last.run("a"), 2, 4, 1, id_at(last.run("a"), 0, 4, 0));
  EXPECT_TRUE(diverges_at(last.check(), 4, Channel::kSamples, "ids", 2));
  Bench only(covered(48, {{"kind", "distributed"}}, 2));
  EXPECT_TRUE(is_inconclusive(only.check(), "did not finish"));
  replace_id(only.run("a"), 1, 1, 0, id_at(only.run("a"), 1, 0, 0));
  EXPECT_TRUE(diverges_at(only.check(), 1, Channel::kSamples, "ids", 1));
}

// 31 samples on 3 ranks: 33 places, two samples come twice, each as the last of its rank.
TEST(Covers, AllowsPaddingAndNoMore) {
  Bench bench(covered(31));
  auto& run = bench.run("a");
  replace_id(run, 0, 2, 2, id_at(run, 2, 0, 0));
  const auto result = bench.check();
  ASSERT_TRUE(diverges_at(result, 2, Channel::kSamples, "ids", 0)) << "a third double leaves one sample out";
  EXPECT_EQ(result.divergence->cause, "samples are left out");
}

TEST(Covers, AllowsPaddingInTheLastPlacesAlone) {
  Bench bench(covered(31));
  auto& run = bench.run("a");
  replace_id(run, 1, 1, 0, id_at(run, 2, 0, 0));
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kSamples, "ids", 1));

  Bench unfinished(covered(301, {{"kind", "distributed"}}, 27));
  EXPECT_TRUE(agrees(unfinished.check()));
  replace_id(unfinished.run("a"), 1, 26, 3, id_at(unfinished.run("a"), 0, 26, 0));
  EXPECT_TRUE(diverges_at(unfinished.check(), 26, Channel::kSamples, "ids", 1)) << "two may come twice, but not here";
}

TEST(Covers, SeesPaddingWhereTheTailIsToBeDropped) {
  Bench bench(covered(32, {{"kind", "distributed"}, {"drop_last", true}}));
  replace_id(bench.run("a"), 0, 2, 1, id_at(bench.run("a"), 0, 0, 0));
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kSamples, "ids", 0));
}

TEST(Covers, SeesALostSample) {
  Bench bench(covered(24));
  bench.rerun("a", {.ids = [](auto step, auto rank, auto& ids) {
                if (step == 1 && rank == 1) ids.pop_back();
              }});
  const auto result = bench.check();
  ASSERT_TRUE(diverges_at(result, 1, Channel::kSamples, "ids", 1));
  EXPECT_EQ(result.divergence->cause, "a batch is short in the middle of an epoch");
}

TEST(Covers, SeesARankThatSkipsAStep) {
  Bench bench(covered(24));
  erase(bench.run("a"), 2, 4, Channel::kSamples, "ids");
  EXPECT_TRUE(diverges_at(bench.check(), 4, Channel::kSamples, "ids", 2));
}

TEST(Covers, SeesAnIdOutOfRange) {
  for (const std::int64_t id : {-1, 24}) {
    Bench bench(covered(24));
    replace_id(bench.run("a"), 1, 0, 2, id);
    EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kSamples, "ids", 1)) << id;
  }
}

TEST(Covers, SeesASamplerWithoutRanks) {
  Json changes = covered(24);
  Bench bench(changes);
  changes["train"]["sampler"] = {{"kind", "none"}};
  bench.runs = Bench(changes).runs;
  EXPECT_EQ(bench.check().status, Status::kDivergence);
}

TEST(Covers, HoldsEachRankToItsOwnPromiseWithoutASampler) {
  // Rank 0 takes a sample twice that rank 1 leaves out: together they have it three times, as they should.
  Bench bench(covered(24, {{"kind", "none"}}));
  auto& run = bench.run("a");
  const std::int64_t doubled = id_at(run, 0, 0, 0), lost = id_at(run, 0, 5, 3);
  replace_id(run, 0, 5, 3, doubled);
  for (std::int64_t step = 0; step < 6; ++step) {
    for (std::size_t i = 0; i < 4; ++i) {
      if (id_at(run, 1, step, i) == doubled) replace_id(run, 1, step, i, lost);
    }
  }
  EXPECT_EQ(bench.check().status, Status::kDivergence);
}

TEST(Covers, SeesAForgottenSetEpoch) {
  const Json forgotten = {{"kind", "distributed"}, {"set_epoch", false}};
  const auto result = Bench(covered(36, forgotten)).check();
  ASSERT_TRUE(diverges_at(result, 3, Channel::kSamples, "ids", 0));
  EXPECT_NE(result.divergence->cause.find("set_epoch"), std::string::npos);
  EXPECT_TRUE(diverges_at(Bench(covered(24, forgotten)).check(), 2, Channel::kSamples, "ids", 0))
      << "8 ids a rank, 24 together";
}

TEST(Covers, SeesAForgottenSetEpochInAnEpochThatIsNotFinished) {
  const Json forgotten = {{"kind", "distributed"}, {"set_epoch", false}};
  EXPECT_TRUE(diverges_at(Bench(covered(96, forgotten, 8 + 2)).check(), 8, Channel::kSamples, "ids", 0));
  EXPECT_TRUE(agrees(Bench(covered(96, {{"kind", "distributed"}}, 8 + 2)).check()));
  EXPECT_TRUE(agrees(Bench(covered(9, forgotten, 2)).check())) << "so few come again by chance";
}

// Every rank has an order of its own here, and the three begin alike.
TEST(Covers, KnowsHowSoonAnOrderComesAgainByChance) {
  for (const std::int64_t samples : {6, 12}) {
    Bench bench(covered(samples, {{"kind", "none"}}));
    auto& run = bench.run("a");
    const std::int64_t epoch = (samples + 3) / 4;
    for (std::int64_t rank = 0; rank < 3; ++rank)
      for (std::int64_t step = 0; step < epoch; ++step)
        put(run, rank, step + epoch, at(run, rank, step, Channel::kSamples, "ids"));
    EXPECT_EQ(bench.check().status, samples < 10 ? Status::kAgree : Status::kDivergence) << samples;
  }
  const auto soon = [](const Json& sampler) {
    const Scratch scratch;
    return laws::promise_of(tiny_scenario(covered(24, sampler), scratch).variants[0], 1000)->never_again;
  };
  EXPECT_EQ(soon({{"kind", "distributed"}}), 10) << "10! orders";
  EXPECT_EQ(soon({{"kind", "stream"}, {"buffer", 1000}}), 10);
  EXPECT_EQ(soon({{"kind", "stream"}, {"buffer", 2}}), 23) << "two ways for each id but the first";
}

TEST(Covers, SeesOneRankThatForgetsSetEpoch) {
  Bench bench(covered(36));
  auto& run = bench.run("a");
  for (std::int64_t step = 0; step < 3; ++step) put(run, 1, step + 3, at(run, 1, step, Channel::kSamples, "ids"));
  ASSERT_EQ(bench.check().status, Status::kDivergence);
}

TEST(Covers, IsInconclusiveWhenItCannotKnow) {
  Bench no_size(covered(24));
  no_size.run("a").ranks[0].header.erase("samples");
  EXPECT_TRUE(is_inconclusive(no_size.check(), "the number of samples"));

  Json changes = covered(24);
  changes["train"]["record"]["every"] = 2;
  EXPECT_TRUE(is_inconclusive(Bench(changes).check(), "every step"));

  Bench nothing(covered(24));
  erase_channel(nothing.run("a"), Channel::kSamples);
  EXPECT_TRUE(is_inconclusive(nothing.check()));

  Bench no_steps(covered(24));
  for (trace::Trace& rank : no_steps.run("a").ranks) rank.steps.clear();
  EXPECT_TRUE(is_inconclusive(no_steps.check()));

  Json too_few = covered(24);
  Bench few(too_few);
  few.scenario.variants[0].train.sampler.options["drop_last"] = true;
  few.run("a").ranks[0].header["samples"] = 2;
  EXPECT_TRUE(is_inconclusive(few.check(), "too little data"));
}

TEST(Covers, IsInconclusiveWhereAGuessLeavesABatchOver) {
  Bench bench(covered(24));
  const auto wait = [&](std::int64_t rank, const std::vector<std::int64_t>& batches) {
    for (std::size_t step = 0; step < batches.size(); ++step)
      step_at(bench.run("a"), rank, static_cast<std::int64_t>(step))
          .records.push_back(integer("seen.waiting", batches[step]));
  };
  for (std::int64_t rank = 0; rank < 3; ++rank) wait(rank, {1, 0, 1, 0, 0});
  EXPECT_TRUE(agrees(bench.check())) << "one was fetched ahead";
  Bench left_out(covered(24));
  step_at(left_out.run("a"), 2, 1).records.push_back(integer("seen.waiting", 1));
  EXPECT_TRUE(is_inconclusive(left_out.check(), "at step 1"));
  Bench at_the_end(covered(24));
  step_at(at_the_end.run("a"), 0, 4).records.push_back(integer("seen.waiting", 1));
  EXPECT_TRUE(is_inconclusive(at_the_end.check(), "at step 4"));
}

TEST(Covers, CoversOneRankToo) {
  Json changes = covered(24);
  changes["world_size"] = 1;
  EXPECT_TRUE(agrees(Bench(changes).check()));
}

}  // namespace
}  // namespace lockstep::test
