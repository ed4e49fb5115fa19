// Runs of other layouts: what shards cannot tell is no difference, and no agreement.
#include "harness/trace/additive_digest.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {
namespace {

using trace::Channel;

const Json kEqual = {{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}};

/// Turns a weight into one that was put together of shards: without the digest of the whole.
void put_together(trace::RunTrace& run, bool with_sum, std::uint64_t bits = 7) {
  for (const std::int64_t rank : {0, 1}) {
    trace::Record& record = at(run, rank, 2, Channel::kWeight, "fc.bias");
    record.is_joined = true;
    record.digest = {.high = 1, .low = bits};
    record.sum = with_sum ? std::optional(record.digest) : std::nullopt;
  }
}

void give_sum(trace::RunTrace& run, std::uint64_t bits) {
  for (const std::int64_t rank : {0, 1})
    at(run, rank, 2, Channel::kWeight, "fc.bias").sum = trace::Digest{.high = 1, .low = bits};
}

TEST(Layouts, SumsAreComparedWhereOneSideIsJoined) {
  for (const std::uint64_t bits : {7, 8}) {
    Bench bench(kEqual);
    give_sum(bench.run("a"), bits);
    put_together(bench.run("b"), /*with_sum=*/true);
    const auto differs = diverges_at(bench.check(), 2, Channel::kWeight, "fc.bias", 0);
    EXPECT_TRUE(bits == 7 ? agrees(bench.check()) : differs);
  }
}

TEST(Layouts, WithoutASumOnBothSidesItIsNotKnown) {
  Bench bench(kEqual);
  put_together(bench.run("b"), /*with_sum=*/true);
  EXPECT_TRUE(is_inconclusive(bench.check(), "not every record could be read on both sides: first step 2"));
}

/// A recorder names what it met and could not read, as gradients that are terms of a sum.
TEST(Layouts, ARecordThatCouldNotBeReadIsNoDifference) {
  for (const char* side : {"a", "b"}) {
    Bench bench(kEqual);
    for (const std::int64_t rank : {0, 1}) {
      erase(bench.run(side), rank, 2, Channel::kGradient, "fc.bias");
      step_at(bench.run(side), rank, 2).records.push_back(text(Channel::kLedger, "seen.unread gradient fc.bias", "…"));
    }
    EXPECT_TRUE(is_inconclusive(bench.check(), "not every record could be read")) << side;
  }
  Bench lacking(kEqual);
  for (const std::int64_t rank : {0, 1}) erase(lacking.run("a"), rank, 2, Channel::kGradient, "fc.bias");
  EXPECT_TRUE(diverges_at(lacking.check(), 2, Channel::kGradient, "fc.bias", 0));
}

/// Two ranks that split tensors take the batch of one rank, once.
TEST(Layouts, ABatchThatRanksComputeTogetherCountsOnce) {
  const Json one_and_two = {{"train", {{"batch", {{"global", 24}}}, {"data", {{"size", 96}}}}},
                            {"variants", {{"a", {{"world_size", 1}}}, {"b", {{"world_size", 2}}}}},
                            {"checks", {{{"that", "rounding"}, {"variants", {"a", "b"}}, {"on", {"samples"}}}}}};
  for (const bool together : {true, false}) {
    Bench bench(one_and_two);
    for (std::int64_t step = 0; step < 4; ++step) {
      const trace::Record ids = at(bench.run("a"), 0, step, Channel::kSamples, "ids");
      for (const std::int64_t rank : {0, 1}) put(bench.run("b"), rank, step, ids);
    }
    for (trace::Trace& rank : bench.run("b").ranks) {
      if (together) rank.header["data_parallel"] = {{"rank", 0}, {"size", 1}};
    }
    EXPECT_EQ(static_cast<bool>(agrees(bench.check())), together);
  }
}

}  // namespace
}  // namespace lockstep::test
