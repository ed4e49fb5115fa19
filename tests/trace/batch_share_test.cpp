#include "harness/trace/batch_share.h"

#include <gtest/gtest.h>

namespace lockstep::trace {
namespace {

/// A run of ranks that compute these shares; -1: the header says nothing.
RunTrace run_of(const std::vector<std::int64_t>& shares, std::int64_t count) {
  RunTrace run{.run = "a"};
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    Trace trace{.header = Json::object()};
    trace.rank = static_cast<std::int64_t>(rank);
    trace.world_size = static_cast<std::int64_t>(shares.size());
    if (shares[rank] >= 0) trace.header["data_parallel"] = {{"rank", shares[rank]}, {"size", count}};
    run.ranks.push_back(std::move(trace));
  }
  return run;
}

std::vector<std::int64_t> ranks_of(const RunTrace& run) {
  std::vector<std::int64_t> ranks;
  for (const Trace& rank : run.ranks) ranks.push_back(rank.rank);
  return ranks;
}

TEST(BatchShare, EachRankHasItsOwnUnlessTheHeaderSaysOtherwise) {
  const RunTrace alone = run_of({-1, -1, -1}, 0);
  EXPECT_EQ(batch_shares_of(alone), 3);
  EXPECT_EQ(ranks_of(one_rank_for_each_share(alone)), (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(BatchShare, RanksThatSplitTensorsCountOnce) {
  const RunTrace pairs = run_of({0, 0, 1, 1}, 2);
  EXPECT_EQ(batch_shares_of(pairs), 2);
  EXPECT_TRUE(is_first_of_share(pairs, 2));
  EXPECT_FALSE(is_first_of_share(pairs, 3));
  EXPECT_EQ(ranks_of(one_rank_for_each_share(pairs)), (std::vector<std::int64_t>{0, 2}));
}

TEST(BatchShare, SharesComeInTheirOrder) {
  EXPECT_EQ(ranks_of(one_rank_for_each_share(run_of({1, 0, 1, 0}, 2))), (std::vector<std::int64_t>{1, 0}));
}

}  // namespace
}  // namespace lockstep::trace
