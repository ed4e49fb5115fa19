// The norm by which a program clips, held against that of the gradients it clips.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/laws/law.h"

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;

constexpr double kThreshold = 0.5;

/// Two ranks clip two gradients, of norms 3 and 4, by these norms. `layout` is that of the first one.
trace::RunTrace clipped(const std::vector<double>& norms, const std::string& layout = "", bool is_split = true) {
  trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(norms.size())};
  for (std::size_t rank = 0; rank < norms.size(); ++rank) {
    trace::Trace& of_rank = run.ranks[rank];
    of_rank.header = {{"recorder", "python"}, {"seen", {{"ddp", {{"wrap", false}, {"sharded", is_split}}}}}};
    of_rank.rank = static_cast<std::int64_t>(rank);
    of_rank.world_size = static_cast<std::int64_t>(norms.size());
    const auto factor = static_cast<float>(kThreshold / norms[rank]);
    std::vector<Record> records = {test::floats(Channel::kGradient, "fc.weight", {3, 0}),
                                   test::floats(Channel::kGradient, "fc.bias", {0, 4}),
                                   test::floats(Channel::kGradient, "clipped fc.weight", {3 * factor, 0}),
                                   test::floats(Channel::kGradient, "clipped fc.bias", {0, 4 * factor})};
    records[0].layout = layout;
    records.push_back(test::integer("seen.clips", 1));
    records.push_back(test::number("seen.clip_norm", kThreshold));
    records.push_back(test::number("seen.total_norm", norms[rank]));
    of_rank.steps.push_back({.step = 0, .records = std::move(records)});
  }
  return run;
}

Outcome asked(const trace::RunTrace& run) {
  return ask(law_named("clipping"), run, scenario::Promises{.known = std::set<std::string>{}});
}

std::string cause_of(const trace::RunTrace& run) {
  const Outcome outcome = asked(run);
  return outcome.broken ? outcome.broken->cause : "none: " + outcome.because;
}

TEST(TotalNorm, IsThatOfAllGradients) { EXPECT_TRUE(asked(clipped({5, 5})).holds()); }

TEST(TotalNorm, MayLeaveNoShardOut) {
  EXPECT_EQ(cause_of(clipped({3, 4})), "clip.norm_of_part");
  EXPECT_NE(cause_of(clipped({2, 3})), "clip.norm_of_part") << "parts that do not make the whole";
}

TEST(TotalNorm, MayLeaveNoLayoutOut) {
  EXPECT_EQ(cause_of(clipped({3, 3}, "tp=2: S(0)")), "clip.norm_of_part");
  EXPECT_NE(cause_of(clipped({3, 3})), "clip.norm_of_part") << "one layout: another norm than the L2 norm, as it seems";
}

TEST(TotalNorm, CountsNoReplicaTwice) {
  EXPECT_EQ(cause_of(clipped({5 * std::sqrt(2.0), 5 * std::sqrt(2.0)})), "clip.norm_over_ranks");
}

/// 7 is the sum of magnitudes. Nothing is clipped by a norm below the threshold.
TEST(TotalNorm, MayBeOfAnotherKind) {
  EXPECT_FALSE(asked(clipped({7, 7})).broken);
  EXPECT_FALSE(asked(clipped({4, 4})).broken);
}

TEST(TotalNorm, IsNotKnownWhereAGradientIsATermOfASum) {
  trace::RunTrace run = clipped({3, 4});
  for (trace::Trace& rank : run.ranks)
    rank.steps[0].records.push_back(test::integer("seen.unread gradient norm.weight", 1));
  EXPECT_FALSE(asked(run).broken);
}

}  // namespace
}  // namespace lockstep::laws
