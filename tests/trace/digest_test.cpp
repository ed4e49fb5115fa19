#include "harness/trace/digest.h"

#include <bit>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace lockstep::trace {
namespace {

using Shape = std::vector<std::int64_t>;

template <typename T>
Digest digest(DType dtype, const Shape& shape, const std::vector<T>& elements) {
  return digest_of(dtype, shape, std::as_bytes(std::span(elements)));
}

/// Digest of `bytes` as a vector of uint8.
Digest digest(const std::vector<std::uint8_t>& bytes) {
  return digest(DType::kUInt8, {static_cast<std::int64_t>(bytes.size())}, bytes);
}

std::vector<std::uint8_t> some_bytes(std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  std::uint64_t state = 88172645463325252U;
  for (std::uint8_t& byte : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    byte = static_cast<std::uint8_t>(state);
  }
  return bytes;
}

// The expected values come from tests/parity/digest.py: Python, written from format.md.
TEST(Digest, TwoNodesAreThoseOfThePythonTwin) {
  std::vector<float> elements(5'000'000);
  std::iota(elements.begin(), elements.end(), 0.0F);
  EXPECT_EQ(to_text(digest(DType::kFloat32, {5'000'000}, elements)), "0d5e5564f4e128c342358c9afa25a1ee");
}

TEST(Digest, NoElementsAreThoseOfThePythonTwin) {
  EXPECT_EQ(to_text(digest_of(DType::kFloat32, Shape{0, 3}, {})), "f776da12490731410761b2b67a3e9206");
}

TEST(Digest, ScalarIsThatOfThePythonTwin) {
  EXPECT_EQ(to_text(digest(DType::kFloat64, {}, std::vector<double>{0.1})), "3b480056a84de694e32cfb0bc9500235");
}

TEST(Digest, TransposeIsThatOfThePythonTwin) {
  const std::vector<std::int64_t> dense = {0, 3, 1, 4, 2, 5};
  EXPECT_EQ(to_text(digest(DType::kInt64, {3, 2}, dense)), "c705161b31f2b571f5c70f75433e82d6");
}

TEST(Digest, BFloat16IsThatOfThePythonTwin) {
  const std::vector<std::uint16_t> ones(3, 0x3f80);
  EXPECT_EQ(to_text(digest(DType::kBFloat16, {3}, ones)), "0ae40224eea32909317c1808d3879953");
}

TEST(Digest, SwapOfTwoElementsChangesIt) {
  std::vector<float> elements(10'000);
  std::iota(elements.begin(), elements.end(), 0.0F);
  const Digest before = digest(DType::kFloat32, {10'000}, elements);
  std::swap(elements[0], elements[1]);
  EXPECT_NE(digest(DType::kFloat32, {10'000}, elements), before);
  std::swap(elements[0], elements[1]);
  EXPECT_EQ(digest(DType::kFloat32, {10'000}, elements), before);
  std::swap(elements[10], elements[9'000]);  // of different leaves
  EXPECT_NE(digest(DType::kFloat32, {10'000}, elements), before);
}

TEST(Digest, SwapOfTwoLeavesChangesIt) {
  std::vector<std::uint8_t> bytes = some_bytes(3 * kLeafBytes);
  const Digest before = digest(bytes);
  std::swap_ranges(bytes.begin(), bytes.begin() + kLeafBytes, bytes.begin() + kLeafBytes);
  EXPECT_NE(digest(bytes), before);
}

TEST(Digest, ReshapeChangesIt) {
  const std::vector<float> elements = {1, 2, 3, 4, 5, 6};
  const std::vector<Shape> shapes = {{6}, {2, 3}, {3, 2}, {1, 6}, {6, 1}, {1, 2, 3}};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      EXPECT_NE(digest(DType::kFloat32, shapes[i], elements), digest(DType::kFloat32, shapes[j], elements)) << i << j;
    }
  }
}

TEST(Digest, EachRowHasItsOwn) {
  const std::vector<float> elements = {1, 2, 1, 2, 2, 1};
  const auto bytes = std::as_bytes(std::span(elements));
  const auto rows = rows_of(Shape{3, 2}, bytes);
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0], rows[1]);
  EXPECT_NE(rows[0], rows[2]);
  EXPECT_EQ(rows_of(Shape{2, 3}, bytes).size(), 2U);
  EXPECT_TRUE(rows_of(Shape{}, bytes).empty());
  EXPECT_TRUE(rows_of(Shape{0, 2}, {}).empty());
}

TEST(Digest, ScalarIsNoVectorOfOne) {
  const std::vector<double> one = {1};
  EXPECT_NE(digest(DType::kFloat64, {}, one), digest(DType::kFloat64, {1}, one));
}

TEST(Digest, EmptyShapesDiffer) {
  EXPECT_NE(digest_of(DType::kFloat32, Shape{0}, {}), digest_of(DType::kFloat32, Shape{0, 0}, {}));
  EXPECT_NE(digest_of(DType::kFloat32, Shape{0, 3}, {}), digest_of(DType::kFloat32, Shape{3, 0}, {}));
}

TEST(Digest, CastOfTheSameBytesChangesIt) {
  const std::vector<std::int64_t> zeros(2);
  EXPECT_NE(digest(DType::kInt64, {2}, zeros), digest(DType::kFloat64, {2}, zeros));
  EXPECT_NE(digest(DType::kFloat16, {8}, zeros), digest(DType::kBFloat16, {8}, zeros));
  EXPECT_NE(digest(DType::kBool, {16}, zeros), digest(DType::kUInt8, {16}, zeros));
}

TEST(Digest, TellsZeroFromMinusZeroAndNaNFromNaN) {
  const auto of = [](double x) { return digest(DType::kFloat64, {1}, std::vector<double>{x}); };
  EXPECT_NE(of(0.0), of(-0.0));
  EXPECT_NE(of(std::bit_cast<double>(0x7ff8000000000000U)), of(std::bit_cast<double>(0x7ff8000000000001U)));
}

TEST(Digest, OneFlippedBitInAnyLeafChangesIt) {
  std::vector<std::uint8_t> bytes = some_bytes(5 * kLeafBytes + 7);
  const Digest before = digest(bytes);
  for (std::size_t at = 0; at < bytes.size(); at += kLeafBytes / 2 - 1) {
    for (const int bit : {0, 7}) {
      bytes[at] ^= static_cast<std::uint8_t>(1 << bit);
      EXPECT_NE(digest(bytes), before) << at;
      bytes[at] ^= static_cast<std::uint8_t>(1 << bit);
    }
  }
  bytes.back() ^= 1;
  EXPECT_NE(digest(bytes), before);
}

/// Expected values: the Python twin on bytes i -> (7 i + i / 251) mod 256.
struct Boundary {
  std::size_t size;
  const char* expected;
};

TEST(Digest, BoundariesOfLeavesAndNodesAreThoseOfThePythonTwin) {
  const Boundary cases[] = {
      {1, "68a60a7a3a5316f0a1c68a09574146d2"},        {16383, "fc65698017dc60e50183a8d83e1dd172"},
      {16384, "1e76a8326b0f068757a3da5abe4531a9"},    {16385, "cb5be278d7d1fe5c36ab87de6f3e7dac"},
      {32768, "90167baf68b9d2ba593d35fed6cac282"},    {16760832, "73aa61e500370359b93c4135c6a12847"},
      {16777215, "910d23c8e43409ae92e1600aa02855fd"}, {16777216, "1092512734dbe03d5ef49f76779ae508"},
      {16777217, "ec400b571e231e946b7bdc83c03e81ab"}, {16793600, "bfa7f72b22f77ec439ac69a0d0d16ac6"},
  };
  for (const Boundary& c : cases) {
    std::vector<std::uint8_t> bytes(c.size);
    for (std::size_t i = 0; i < c.size; ++i) bytes[i] = static_cast<std::uint8_t>(7 * i + i / 251);
    EXPECT_EQ(to_text(digest(bytes)), c.expected) << c.size << " bytes";
  }
}

TEST(Digest, RefusesAnotherNumberOfBytes) {
  const std::vector<float> elements(6);
  EXPECT_THROW(digest(DType::kFloat32, {5}, elements), InternalError);
  EXPECT_THROW(digest(DType::kFloat64, {6}, elements), InternalError);
  EXPECT_THROW(digest(DType::kFloat32, {}, elements), InternalError);
}

TEST(Digest, TextRoundTrips) {
  const Digest digest{.high = 0x0123456789abcdef, .low = 0xfedcba9876543210};
  EXPECT_EQ(to_text(digest), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(digest_from(to_text(digest)), digest);
}

TEST(Digest, TextIsNothingElse) {
  for (const char* text :
       {"", "0123456789abcdef", "0123456789abcdeffedcba987654321", "0123456789abcdeffedcba98765432100",
        "0123456789ABCDEFfedcba9876543210", "0123456789abcdefgedcba9876543210"}) {
    EXPECT_FALSE(digest_from(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace lockstep::trace
