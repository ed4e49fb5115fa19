#include "harness/recipe/sampler_rule.h"

#include <gtest/gtest.h>

#include "harness/scenario/scenario.h"

// Orders of samplers, against torch 2.15: torch.utils.data.DistributedSampler over 13 samples on 3 ranks.

namespace lockstep::laws {
namespace {

using Ids = std::vector<std::int64_t>;

scenario::Promises promised(const std::string& kind, Json options) {
  scenario::Promises promises{.name = "a", .world_size = 3};
  promises.train.sampler = {.kind = recipe::named<recipe::SamplerKind>(kind), .options = std::move(options)};
  promises.train.batch.per_rank = 2;
  return promises;
}

Ids order(const scenario::Promises& promises, recipe::OrderOf which) {
  return order_of(promises.train, promises.world_size, 13, which);
}

TEST(SamplerOrder, IsThatOfDistributedSampler) {
  const auto padded =
      promised("distributed", {{"seed", 5}, {"shuffle", true}, {"set_epoch", true}, {"drop_last", false}});
  EXPECT_EQ(order(padded, {.rank = 0, .epoch = 2}), (Ids{6, 9, 12, 10, 2}));
  EXPECT_EQ(order(padded, {.rank = 1, .epoch = 2}), (Ids{5, 8, 0, 1, 6}));
  EXPECT_EQ(order(padded, {.rank = 2, .epoch = 2}), (Ids{3, 4, 11, 7, 5}));
  const auto cut = promised("distributed", {{"seed", 5}, {"shuffle", true}, {"set_epoch", true}, {"drop_last", true}});
  EXPECT_EQ(order(cut, {.rank = 2, .epoch = 2}), (Ids{3, 4, 11, 7}));
}

TEST(SamplerOrder, FollowsWhatTheSamplerIsTold) {
  const auto never =
      promised("distributed", {{"seed", 7}, {"shuffle", true}, {"set_epoch", false}, {"drop_last", true}});
  const auto by_batch = promised("distributed", {{"seed", 0}, {"shuffle", true}, {"set_epoch", "iteration"}});
  const Ids expected{6, 9, 12, 10};
  EXPECT_EQ(order(never, {.epoch = 4}), expected);
  EXPECT_EQ(order(by_batch, {.batches = 7}), (Ids{6, 9, 12, 10, 2}));
  EXPECT_EQ(order(never, {.seed = 7, .sharded = false}).size(), 13U);
  const auto plain = promised("contiguous", {{"shuffle", false}, {"drop_last", false}});
  EXPECT_EQ(order(plain, {.rank = 2}), (Ids{10, 11, 12, 0, 1}));
}

TEST(SamplerOrder, IsDealtOutInSlicesByARankThatReadsForAll) {
  const auto read_by_one = promised("dispatch", {{"shuffle", false}});
  EXPECT_EQ(order(read_by_one, {.rank = 0}), (Ids{0, 1, 6, 7, 12}));
  EXPECT_EQ(order(read_by_one, {.rank = 2}), (Ids{4, 5, 10, 11, 1}));
}

TEST(SamplerOrder, OfAKindThatNobodyDescribedIsUnknown) {
  EXPECT_NE(recipe::no_known_order({recipe::SamplerKind::kUnknown, {{"shuffle", false}}}), "");
}

TEST(SamplerOrder, IsNotKnownOfASharedGenerator) {
  EXPECT_NE(recipe::no_known_order({recipe::SamplerKind::kNone, {{"shuffle", true}}}), "");
  EXPECT_NE(recipe::no_known_order({recipe::SamplerKind::kAccelerate, {{"shuffle", true}}}), "");
  EXPECT_EQ(recipe::no_known_order({recipe::SamplerKind::kAccelerate, {{"shuffle", true}, {"seed", 1}}}), "");
  EXPECT_EQ(recipe::no_known_order({recipe::SamplerKind::kNone, {{"shuffle", false}}}), "");
}

}  // namespace
}  // namespace lockstep::laws
