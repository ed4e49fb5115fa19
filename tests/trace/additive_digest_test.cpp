// Digests and sketches of shards: they add up to those of the whole tensor.
#include "harness/trace/additive_digest.h"

#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/trace/sketch.h"

#include "tests/trace/boxes.h"
#include "tests/trace/random.h"

namespace lockstep::trace {
namespace {

using test::Box;
using test::Random;

std::vector<std::byte> random_bytes(Random& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.bits());
  return bytes;
}

Digest digest_of_box(DType dtype, const Box& box, const std::vector<std::byte>& whole) {
  return additive_digest_of(dtype, box.shard, box.shape, test::cut(box, whole, bytes_of(dtype)));
}

/// Numbers of a program that follows the text of format.md, with integers of any length.
TEST(AdditiveDigest, IsAsFormatSays) {
  std::vector<std::byte> bytes(5000);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i * 7 % 251);
  EXPECT_EQ(to_text(additive_digest_of(bytes)), "1237318dc3ebba8858282a826d5ef531");
  EXPECT_EQ(to_text(additive_digest_of(std::vector(1, std::byte{1}))), "41bffbedca628a791e07d43780fe6d9e");
  EXPECT_EQ(to_text(additive_digest_of(std::vector(10'000, std::byte{0xff}))), "13497c7e99cf08d571f783d79bfc2826");
  EXPECT_EQ(additive_digest_of(std::vector<std::byte>(4096)), Digest{});
  EXPECT_EQ(additive_digest_of({}), Digest{});
}

TEST(AdditiveDigest, ThatOfTheWholeIsTheSumOverItsShards) {
  Random random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const DType dtype = trial % 2 == 0 ? DType::kFloat32 : trial % 4 == 1 ? DType::kBFloat16 : DType::kFloat64;
    const std::vector<std::int64_t> shape = test::random_shape(random);
    const std::vector<std::byte> whole = random_bytes(random, count_of(shape) * bytes_of(dtype));
    Digest sum;
    for (const Box& box : test::random_split(random, shape)) sum = sum_of(sum, digest_of_box(dtype, box, whole));
    ASSERT_EQ(sum, additive_digest_of(whole)) << trial;
  }
}

TEST(AdditiveDigest, EveryFlippedBitAndEverySwapShows) {
  Random random(2);
  std::vector<std::byte> bytes = random_bytes(random, 4100);
  const Digest digest = additive_digest_of(bytes);
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] ^= static_cast<std::byte>(1 << bit);
      ASSERT_NE(additive_digest_of(bytes), digest) << at << " " << bit;
      bytes[at] ^= static_cast<std::byte>(1 << bit);
    }
  }
  for (std::size_t at = 0; at + 2056 < bytes.size(); at += 8) {  // a word and the one at its place of the next block
    std::vector<std::byte> swapped = bytes;
    std::swap_ranges(swapped.begin() + static_cast<long>(at), swapped.begin() + static_cast<long>(at) + 8,
                     swapped.begin() + static_cast<long>(at) + 2048);
    ASSERT_NE(additive_digest_of(swapped), digest) << at;
  }
}

TEST(AdditiveDigest, TakesNoOtherNumberOfBytes) {
  const Shard shard{.whole = {4, 4}, .offset = {0, 0}};
  const std::vector<std::int64_t> shape{2, 4};
  EXPECT_THROW(additive_digest_of(DType::kFloat32, shard, shape, std::vector<std::byte>(31)), InternalError);
}

TEST(SketchOfShards, ThatOfTheWholeIsTheSumOverItsShards) {
  Random random(3);
  for (int trial = 0; trial < 100; ++trial) {
    const std::vector<std::int64_t> shape = test::random_shape(random);
    std::vector<double> elements(count_of(shape));
    for (double& element : elements) element = random.normal();
    const auto bytes = std::as_bytes(std::span(elements));
    const std::vector<std::byte> whole(bytes.begin(), bytes.end());
    Sketch sum;
    for (const Box& box : test::random_split(random, shape))
      sum = sum_of(sum, sketch_of(DType::kFloat64, box.shard, box.shape, test::cut(box, whole, sizeof(double))));
    const Sketch expected = sketch_of(DType::kFloat64, whole);
    EXPECT_EQ(sum.max_abs, expected.max_abs);
    EXPECT_NEAR(sum.norm, expected.norm, 1e-12 * expected.norm);
    for (std::size_t i = 0; i < Sketch::kBuckets; ++i)
      ASSERT_NEAR(sum.buckets[i], expected.buckets[i], 1e-12 * expected.norm) << trial;
  }
}

TEST(SampleOfShards, IsThatOfTheWhole) {
  Random random(4);
  for (int trial = 0; trial < 100; ++trial) {
    const std::vector<std::int64_t> shape = test::random_shape(random);
    std::vector<double> elements(count_of(shape));
    std::iota(elements.begin(), elements.end(), 0.0);
    const auto bytes = std::as_bytes(std::span(elements));
    const std::vector<std::byte> whole(bytes.begin(), bytes.end());
    const std::vector<double> expected = sample_of(DType::kFloat64, whole);
    std::vector<double> found(expected.size(), std::nan(""));
    for (const Box& box : test::random_split(random, shape)) {
      const std::vector<std::byte> part = test::cut(box, whole, sizeof(double));
      for (const Sampled& sampled : sampled_in(box.shard, box.shape))
        std::memcpy(&found.at(sampled.number), &part.at(sampled.in_box * sizeof(double)), sizeof(double));
    }
    ASSERT_EQ(found, expected) << trial;
  }
}

}  // namespace
}  // namespace lockstep::trace
