#include "harness/trace/shard.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"

#include "tests/trace/boxes.h"

namespace lockstep::trace {
namespace {

using Extents = std::vector<std::int64_t>;

TEST(Shard, FitsWhereItLiesInItsTensor) {
  const auto lies = [](Extents whole, Extents offset, const Extents& shape) {
    return fits({.whole = std::move(whole), .offset = std::move(offset)}, shape);
  };
  EXPECT_TRUE(lies({4, 6}, {2, 0}, {2, 6}));
  EXPECT_TRUE(lies({}, {}, {}));
  EXPECT_TRUE(lies({4}, {4}, {0}));
  EXPECT_FALSE(lies({4, 6}, {3, 0}, {2, 6}));
  EXPECT_FALSE(lies({4, 6}, {0, 0}, {4}));
  EXPECT_FALSE(lies({4, 6}, {0}, {4, 6}));
  EXPECT_FALSE(lies({4}, {-1}, {2}));
  EXPECT_FALSE(lies({4}, {0}, {-1}));
  EXPECT_FALSE(lies({4}, {INT64_MAX}, {2}));
}

TEST(Shard, RunsAreTheBoxInOrder) {
  test::Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const Extents shape = test::random_shape(random);
    std::vector<std::byte> whole(count_of(shape) * 4);
    for (std::byte& byte : whole) byte = static_cast<std::byte>(random.bits());
    for (const test::Box& box : test::random_split(random, shape)) {
      std::vector<std::byte> taken;
      for_each_run(box.shard, box.shape, [&](const ElementRun& run) {
        ASSERT_EQ(run.in_box * 4, taken.size());
        const auto first = whole.begin() + static_cast<long>(run.in_whole * 4);
        taken.insert(taken.end(), first, first + static_cast<long>(run.count * 4));
      });
      ASSERT_EQ(taken, test::cut(box, whole, 4));
    }
  }
}

TEST(Shard, RunsAreAsLongAsTheyCanBe) {
  const auto runs = [](const Extents& whole, const Extents& shape) {
    std::size_t count = 0;
    for_each_run({.whole = whole, .offset = Extents(whole.size(), 0)}, shape, [&](const ElementRun&) { ++count; });
    return count;
  };
  EXPECT_EQ(runs({8, 6, 5}, {4, 6, 5}), 1U);
  EXPECT_EQ(runs({8, 6, 5}, {8, 3, 5}), 8U);
  EXPECT_EQ(runs({8, 6, 5}, {8, 6, 2}), 48U);
  EXPECT_EQ(runs({8, 6, 5}, {0, 6, 5}), 0U);
  EXPECT_EQ(runs({}, {}), 1U);
}

TEST(Shard, ABoxOutsideIsRefused) {
  EXPECT_THROW(for_each_run({.whole = {4}, .offset = {3}}, Extents{2}, [](const ElementRun&) {}), InternalError);
}

TEST(Shard, IsToldAsPythonSlices) {
  EXPECT_EQ(text_of_box({.whole = {34, 34}, .offset = {17, 0}}, Extents{17, 34}), "[17:34, 0:34] of [34, 34]");
}

}  // namespace
}  // namespace lockstep::trace
