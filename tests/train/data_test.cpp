#include "harness/train/data/data.h"

#include <functional>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/train/loop/loader.h"

#include "tests/support/support.h"

namespace lockstep::train {
namespace {

std::filesystem::path digits_file() { return test::source_root() / "scenarios/data/digits.csv.gz"; }

Dataset digits(std::int64_t size, const std::filesystem::path& file = digits_file()) {
  return make_data({.kind = recipe::DataKind::kDigits, .options = {{"path", file.string()}, {"size", size}}});
}

std::string complaint_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Digits, AreReadAsMultiplesOfASixteenth) {
  const Dataset data = digits(1797);
  EXPECT_EQ(data.inputs.sizes(), at::IntArrayRef({1797, 1, 8, 8}));
  EXPECT_TRUE(at::equal(data.inputs * 16, (data.inputs * 16).round()));
  EXPECT_EQ(data.labels.max().item<std::int64_t>(), 9);
}

TEST(Digits, DamageIsNamed) {
  const test::Scratch scratch;
  const std::string whole = read_file(digits_file());
  const auto torn = scratch.write("torn.gz", whole.substr(0, whole.size() / 2));
  EXPECT_NE(complaint_of([&] { digits(1797, torn); }).find("ends early"), std::string::npos);
  const auto text = scratch.write("text.gz", "1,2,3\n");
  EXPECT_NE(complaint_of([&] { digits(1, text); }).find("text.gz"), std::string::npos);
  EXPECT_NE(complaint_of([&] { digits(1798); }).find("1797"), std::string::npos);
  EXPECT_NE(complaint_of([&] { digits(1, scratch.path() / "none.gz"); }).find("none.gz"), std::string::npos);
}

/// A sampler with a fixed order.
class Fixed : public Sampler {
 public:
  explicit Fixed(std::int64_t size) : size_(size) {}
  std::vector<std::int64_t> order(const Pass& pass) override {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < size_; ++i) ids.push_back(100 * pass.epoch + i);
    return ids;
  }
  std::int64_t size() const override { return size_; }

 private:
  std::int64_t size_;
};

TEST(Loader, TheLastBatchOfAnEpochIsShortAndTheNextEpochFollows) {
  Loader loader(std::make_unique<Fixed>(5), 2, 1);
  EXPECT_EQ(loader.next(), (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(loader.next(), (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(loader.next(), (std::vector<std::int64_t>{4}));
  EXPECT_EQ(loader.next(), (std::vector<std::int64_t>{100, 101}));
  EXPECT_EQ(loader.position().epoch, 1);
}

TEST(Loader, AShortLastBatchMayBeDropped) {
  Loader loader(std::make_unique<Fixed>(5), 2, 1, /*drop_last=*/true);
  for (int i = 0; i < 2; ++i) loader.next();
  EXPECT_TRUE(loader.at_epoch_end());
  EXPECT_EQ(loader.next(), (std::vector<std::int64_t>{100, 101}));
  EXPECT_EQ(loader.batches_per_epoch(), 2);
  EXPECT_THROW(Loader(std::make_unique<Fixed>(1), 2, 1, true), InputError);
}

TEST(Loader, RestoreGoesOnWhereItWas) {
  Loader loader(std::make_unique<Fixed>(5), 2, 1);
  loader.restore({.epoch = 3, .position = 2}, 1);
  EXPECT_EQ(loader.next(), (std::vector<std::int64_t>{302, 303}));
}

TEST(Loader, APositionOutsideTheEpochIsRefused) {
  Loader loader(std::make_unique<Fixed>(5), 2, 1);
  EXPECT_NO_THROW(loader.restore({.epoch = 0, .position = 5}, 1));
  EXPECT_THROW(loader.restore({.epoch = 0, .position = 6}, 1), InputError);
  EXPECT_THROW(loader.restore({.epoch = 0, .position = -1}, 1), InputError);
}

TEST(Loader, ARankWithoutSamplesIsAnError) { EXPECT_THROW(Loader(std::make_unique<Fixed>(0), 2, 1), InputError); }

TEST(Loader, AnEpochThatIsOverAtAnotherWorldSizeIsOver) {
  const Json options = {{"shuffle", false}, {"drop_last", false}, {"seed", 0}};
  Loader loader(
      make_sampler({.kind = recipe::SamplerKind::kDistributed, .options = options}, {.samples = 10, .world_size = 2}),
      2, 2);
  loader.restore({.epoch = 1, .position = 3}, 4);  // of twelve with the padding
  EXPECT_TRUE(loader.at_epoch_end());
  EXPECT_EQ(loader.samples_taken({.epoch = 1, .position = 3}, 4), 10);
}

TEST(Samplers, OfAccelerateGoOnBehindWholeTurnsOnly) {
  const Json options = {{"shuffle", false}, {"drop_last", false}, {"even_batches", true}};
  const auto sampler = make_sampler({.kind = recipe::SamplerKind::kAccelerate, .options = options},
                                    {.samples = 24, .world_size = 2, .micro_batch = 2});
  EXPECT_FALSE(sampler->position_behind(2, 3)) << "six samples are a turn and a half";
  EXPECT_EQ(sampler->position_behind(4, 3), 6);
}

TEST(Loader, RestartBeginsAnEpochAnew) {
  for (const std::int64_t epoch : {0, 1, 4}) {
    Loader loader(std::make_unique<Fixed>(5), 2, 1);
    loader.restart(epoch, 7);
    loader.next();
    EXPECT_EQ(loader.position().epoch, epoch);
    EXPECT_EQ(loader.position().position, 2);
    EXPECT_EQ(loader.position().batches, epoch == 0 ? 0 : 7);
  }
}

TEST(Loader, SizesOfBatchesToComeAreKnown) {
  for (const std::int64_t taken : {0, 1, 2, 3, 4}) {
    Loader loader(std::make_unique<Fixed>(5), 2, 1);
    for (std::int64_t i = 0; i < taken; ++i) loader.next();
    std::vector<std::int64_t> told;
    for (std::int64_t i = 0; i < 7; ++i) told.push_back(loader.size_of(i));
    for (const std::int64_t size : told) EXPECT_EQ(size, static_cast<std::int64_t>(loader.next().size()));
  }
}

TEST(Samplers, TellTheSizeOfTheirOrder) {
  const std::pair<const char*, Json> kinds[] = {{"contiguous", {{"drop_last", true}}},
                                                {"contiguous", {{"drop_last", false}}},
                                                {"distributed", {{"drop_last", true}}},
                                                {"distributed", {{"drop_last", false}}},
                                                {"none", Json::object()},
                                                {"elastic", {{"start", 3}}},
                                                {"libtorch", Json::object()},
                                                {"stream", {{"shard", true}, {"buffer", 4}}},
                                                {"stream", {{"shard", false}, {"buffer", 1}}},
                                                {"accelerate", {{"drop_last", true}, {"even_batches", true}}},
                                                {"accelerate", {{"drop_last", false}, {"even_batches", true}}},
                                                {"accelerate", {{"drop_last", false}, {"even_batches", false}}},
                                                {"dispatch", Json::object()}};
  for (const auto& [kind, own] : kinds) {
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      Json options = {{"shuffle", true}, {"set_epoch", true}, {"seed", 1}};
      options.update(own);
      const auto sampler = make_sampler({.kind = recipe::named<recipe::SamplerKind>(kind), .options = options},
                                        {.samples = 11, .rank = rank, .world_size = 3, .micro_batch = 2});
      sampler->prepare();
      const std::vector<std::int64_t> order = sampler->order({.epoch = 2, .batches = 9});
      EXPECT_EQ(sampler->size(), static_cast<std::int64_t>(order.size())) << kind << own;
      for (const std::int64_t id : order) EXPECT_TRUE(id >= own.value("start", 0) && id < 11) << kind << own;
    }
  }
}

/// Three ranks take some samples, two others take the rest: together every sample of the epoch, each once.
TEST(Samplers, WhoseRanksTakeTurnsGoOnAtAnotherWorldSize) {
  const std::pair<const char*, Json> kinds[] = {{"distributed", {{"drop_last", false}}},
                                                {"elastic", {{"start", 0}}},
                                                {"accelerate", {{"drop_last", false}, {"even_batches", true}}}};
  for (const auto& [kind, own] : kinds) {
    Json options = {{"shuffle", true}, {"set_epoch", true}, {"seed", 1}};
    options.update(own);
    const auto make = [&, kind = kind](std::int64_t rank, std::int64_t world_size) {
      return make_sampler({.kind = recipe::named<recipe::SamplerKind>(kind), .options = options},
                          {.samples = 24, .rank = rank, .world_size = world_size, .micro_batch = 2});
    };
    EXPECT_FALSE(make(0, 2)->position_behind(3, 3)) << kind << ": nine samples are no turns of two ranks";
    EXPECT_EQ(make(0, 5)->position_behind(8, 3), 24) << kind << ": the epoch is over, however it divides";
    constexpr std::int64_t kTaken = 4;
    std::multiset<std::int64_t> all;
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      const auto order = make(rank, 3)->order({.epoch = 5});
      all.insert(order.begin(), order.begin() + kTaken);
    }
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      const auto sampler = make(rank, 2);
      const auto order = sampler->order({.epoch = 5});
      all.insert(order.begin() + sampler->position_behind(kTaken, 3).value(), order.end());
    }
    for (std::int64_t id = 0; id < 24; ++id) EXPECT_EQ(all.count(id), 1U) << kind << " " << id;
  }
  EXPECT_FALSE(make_sampler({.kind = recipe::SamplerKind::kContiguous,
                             .options = {{"shuffle", true}, {"drop_last", false}, {"seed", 0}}},
                            {.samples = 24, .world_size = 2})
                   ->position_behind(4, 3));
}

TEST(Samplers, OfAccelerateRefusesABatchLessForSomeRanks) {
  const Json options = {{"shuffle", false}, {"seed", 1}, {"drop_last", false}, {"even_batches", false}};
  EXPECT_THROW(make_sampler({.kind = recipe::SamplerKind::kAccelerate, .options = options},
                            {.samples = 10, .rank = 0, .world_size = 3, .micro_batch = 2}),
               InputError);
}

TEST(Loader, RefusesToRestoreAnOrderThatNobodyKnows) {
  const Json options = {{"shuffle", true}, {"drop_last", false}, {"even_batches", true}};
  Loader loader(make_sampler({.kind = recipe::SamplerKind::kAccelerate, .options = options},
                             {.samples = 10, .world_size = 2, .micro_batch = 2}),
                2, 2);
  loader.prepare();
  EXPECT_THROW(loader.restore({.epoch = 0, .position = 2}, 2), InputError);
}

}  // namespace
}  // namespace lockstep::train
