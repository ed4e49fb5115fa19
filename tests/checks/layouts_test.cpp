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

void share_by(trace::RunTrace& run, const char* kind, const Json& outside = Json::array()) {
  for (trace::Trace& rank : run.ranks)
    rank.header["seen"] = {{"layout", {{kind, 2}}},
                           {"ddp", {{"fsdp", {{"param_dtype", "float32"}}}, {"outside", outside}}}};
}

/// DDP adds to what it has reduced; FSDP2 does not know of what it does not reduce.
TEST(Layouts, OwnGradientsThatOneSideHasInAnotherSenseAreLeftOut) {
  for (const char* kind : {"shard", "replicate"}) {
    Bench later(kEqual), outside(kEqual);
    for (const std::int64_t rank : {0, 1}) {
      step_at(later.run("a"), rank, 2).records.push_back(floats(Channel::kGradientLocal, "fc.bias#1", {1, 2}));
      step_at(later.run("b"), rank, 2).records.push_back(floats(Channel::kGradientLocal, "fc.bias#1", {3, 4}));
      erase(outside.run("b"), rank, 2, Channel::kGradientLocal, "fc.bias");
      step_at(outside.run("b"), rank, 1).records.push_back(text(Channel::kCollective, "0", "allgather"));
    }
    for (Bench* bench : {&later, &outside}) {
      share_by(bench->run("a"), "replicate");
      share_by(bench->run("b"), kind, bench == &outside ? Json{"fc.bias"} : Json::array());
      const checks::CheckResult result = bench->check();
      EXPECT_EQ(static_cast<bool>(agrees(result)), std::string(kind) == "shard");
      const bool says_so = result.why.find("parameters outside of FSDP2, are not compared") != std::string::npos;
      EXPECT_EQ(says_so, std::string(kind) == "shard") << result.why;
    }
  }
}

/// Muon's update in bfloat16 proves neither rounding nor a mistake; a gradient beside it does.
TEST(Layouts, AnUpdateInBFloat16IsUndecided) {
  const Json rounding = {{"checks", {{{"that", "rounding"}, {"variants", {"a", "b"}}}}}};
  for (const Channel channel : {Channel::kWeight, Channel::kGradient}) {
    for (const char* optimizer : {"Muon", "SGD"}) {
      Bench bench(rounding);
      for (const char* run : {"a", "b"}) {
        for (trace::Trace& rank : bench.run(run).ranks) rank.header["seen"]["optimizer"] = {{{"class", optimizer}}};
      }
      for (const std::int64_t rank : {0, 1}) put(bench.run("b"), rank, 2, floats(channel, "fc.bias", {5, 6, 7, 8}));
      const bool is_open = channel == Channel::kWeight && optimizer == std::string("Muon");
      if (is_open)
        EXPECT_TRUE(is_inconclusive(bench.check(), "Muon makes its update in bfloat16"));
      else
        EXPECT_TRUE(diverges_at(bench.check(), 2, channel, "fc.bias", 0));
    }
  }
}

/// Of tensors in the same parts, the part and its rank are named.
TEST(Layouts, ThePartThatDiffersIsNamed) {
  Bench bench(kEqual);
  for (const char* run : {"a", "b"}) {
    put_together(bench.run(run), /*with_sum=*/true, run == std::string("a") ? 7 : 8);
    for (const std::int64_t rank : {0, 1})
      at(bench.run(run), rank, 2, Channel::kWeight, "fc.bias").parts = {
          {.rank = 0, .box = "[0:2] of [4]", .digest = {.high = 1, .low = 1}},
          {.rank = 1, .box = "[2:4] of [4]", .digest = {.high = 1, .low = run == std::string("a") ? 2U : 3U}}};
  }
  const auto result = bench.check();
  ASSERT_TRUE(diverges_at(result, 2, Channel::kWeight, "fc.bias", 1));
  EXPECT_NE(result.divergence->relation.find("in [2:4] of [4] on rank 1 only"), std::string::npos)
      << result.divergence->relation;
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

/// Between numbers of ranks a step that a side has not is no batch without samples.
TEST(Layouts, AStepThatIsNotThereHasNoBatch) {
  Bench bench(Json{{"variants", {{"a", {{"world_size", 1}}}, {"b", {{"world_size", 2}}}}},
                   {"checks", {{{"that", "rounding"}, {"variants", {"a", "b"}}, {"on", {"samples"}}}}}});
  for (trace::Trace& rank : bench.run("b").ranks) rank.steps.pop_back();
  const auto result = bench.check();
  ASSERT_TRUE(diverges_at(result, 3, Channel::kSamples, "ids", 0));
  EXPECT_EQ(result.divergence->right.missing, compare::Missing::kStep);
}

}  // namespace
}  // namespace lockstep::test
