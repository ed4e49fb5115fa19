// The law of the reduction under FSDP2: the dtype and the divisor that it is given count as meant.
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/laws/law.h"

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;

/// Two ranks whose own gradients are {1, 2} and {3, 6}, and what both hold after the reduction.
trace::RunTrace reduced(const std::vector<float>& gradient, const Json& fsdp = Json::object()) {
  trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(2)};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    trace::Trace& of_rank = run.ranks[rank];
    of_rank.header = {{"recorder", "python"}, {"seen", {{"ddp", {{"wrap", false}, {"sharded", true}}}}}};
    of_rank.header["seen"]["ddp"]["fsdp"] = fsdp;
    of_rank.rank = static_cast<std::int64_t>(rank);
    of_rank.world_size = 2;
    const std::vector<float> own = rank == 0 ? std::vector<float>{1, 2} : std::vector<float>{3, 6};
    of_rank.steps.push_back({.step = 0,
                             .records = {test::floats(Channel::kGradientLocal, "fc.weight", own),
                                         test::floats(Channel::kGradient, "fc.weight", gradient)}});
  }
  return run;
}

Outcome asked(const trace::RunTrace& run) {
  scenario::Promises promises;
  promises.known.emplace();
  promises.world_size = 2;
  promises.train.record.channels = {"gradient.local", "gradient"};
  return ask(law_named("reduction"), run, promises);
}

constexpr float kBFloat16 = 1 + 0x1p-8F;  ///< off by the roundoff of bfloat16

TEST(FsdpReduction, IsTheMean) {
  EXPECT_TRUE(asked(reduced({2, 4})).holds());
  EXPECT_TRUE(asked(reduced({4, 8})).broken);
  EXPECT_TRUE(asked(reduced({2 * kBFloat16, 4 * kBFloat16})).broken);
}

/// Ranks that split tensors, whose copies of a gradient drifted apart: the law does not judge it, and so does not hold.
TEST(FsdpReduction, IsNotJudgedWhereCopiesDrifted) {
  for (const bool together : {false, true}) {
    trace::RunTrace run = reduced({4, 8});
    for (trace::Trace& rank : run.ranks) {
      if (together) rank.header["data_parallel"] = {{"rank", 0}, {"size", 1}};
    }
    const Outcome outcome = asked(run);
    EXPECT_EQ(outcome.broken.has_value(), !together);
    EXPECT_FALSE(outcome.holds());
  }
}

TEST(FsdpReduction, DividesByWhatItIsGiven) {
  EXPECT_TRUE(asked(reduced({4, 8}, {{"divide_factor", 1.0}})).holds());
  EXPECT_TRUE(asked(reduced({1, 2}, {{"divide_factor", 4.0}})).holds());
  EXPECT_TRUE(asked(reduced({2, 4}, {{"divide_factor", 1.0}})).broken);
  EXPECT_FALSE(asked(reduced({4, 8}, {{"divide_factor", "several"}})).broken);
  EXPECT_FALSE(asked(reduced({4, 8}, {{"hook", true}})).broken);
}

TEST(FsdpReduction, RoundsAsItIsGiven) {
  EXPECT_TRUE(asked(reduced({2 * kBFloat16, 4 * kBFloat16}, {{"reduce_dtype", "bfloat16"}})).holds());
  EXPECT_TRUE(asked(reduced({2 * kBFloat16, 4 * kBFloat16}, {{"reduce_dtype", "float32"}})).broken);
  EXPECT_TRUE(asked(reduced({4, 8}, {{"reduce_dtype", "bfloat16"}})).broken);
}

/// A generator's backward pass goes through the discriminator, which was updated before: no update uses what it makes.
TEST(FsdpReduction, MayBeMadeByAnEarlierPass) {
  trace::RunTrace run = reduced({2, 4});
  for (trace::Trace& rank : run.ranks)
    rank.steps[0].records.push_back(test::floats(Channel::kGradientLocal, "fc.weight#1", {7, -1}));
  EXPECT_TRUE(asked(run).holds());
  for (trace::Trace& rank : run.ranks) rank.steps[0].records[1] = test::floats(Channel::kGradient, "fc.weight", {4, 8});
  EXPECT_TRUE(asked(run).broken) << "it is the mean of no pass";
}

/// Shards that hold the same numbers are no other scale of a gradient.
TEST(FsdpReduction, MayBeFollowedByTheScriptsOwn) {
  trace::RunTrace run = reduced({4, 8});
  for (trace::Trace& rank : run.ranks) rank.steps[0].records.push_back(test::integer("seen.changed", 1));
  const Outcome changed = asked(run);
  EXPECT_FALSE(changed.broken);
  EXPECT_NE(changed.because.find("changes gradients after FSDP2 has reduced them"), std::string::npos);
  for (trace::Trace& rank : run.ranks) rank.steps[0].records[1].is_repeated = true;
  EXPECT_TRUE(asked(run).broken);
}

}  // namespace
}  // namespace lockstep::laws
