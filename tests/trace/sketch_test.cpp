#include "harness/trace/sketch.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"

#include "tests/trace/random.h"

namespace lockstep::trace {
namespace {

using test::Random;

template <typename T>
Sketch sketch_from(DType dtype, const std::vector<T>& elements) {
  return sketch_of(dtype, std::as_bytes(std::span(elements)));
}
Sketch sketch_from(const std::vector<float>& elements) { return sketch_from(DType::kFloat32, elements); }

/// The text of format.md, one element at a time.
Sketch as_format_says(const std::vector<double>& elements) {
  double partial[8][32] = {};
  double squares[8] = {};
  Sketch result;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::uint64_t b = i / 64, j = i % 64;
    const std::uint64_t h = Random(b).bits();  // SplitMix64(b)
    const std::uint64_t p = (h * 0x9E3779B97F4A7C15U) >> 59;
    partial[p % 8][(j % 32) ^ p] += (h >> j) % 2 == 1 ? -elements[i] : elements[i];
    squares[i % 8] += elements[i] * elements[i];
    result.max_abs = std::max(result.max_abs, std::fabs(elements[i]));
  }
  double sum = 0;
  for (const double lane : squares) sum += lane;
  result.norm = std::sqrt(sum);
  for (std::size_t bucket = 0; bucket < 32; ++bucket) {
    for (const auto& row : partial) result.buckets[bucket] += row[bucket];
  }
  return result;
}

void expect_same_bits(const Sketch& left, const Sketch& right, std::size_t size) {
  const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
  EXPECT_EQ(bits(left.norm), bits(right.norm)) << size << " elements";
  EXPECT_EQ(bits(left.max_abs), bits(right.max_abs)) << size << " elements";
  for (std::size_t i = 0; i < Sketch::kBuckets; ++i) {
    ASSERT_EQ(bits(left.buckets[i]), bits(right.buckets[i])) << size << " elements, bucket " << i;
  }
}

/// Normal numbers of very different size, some zeros and denormals.
std::vector<float> wild_floats(std::size_t size, Random& random) {
  std::vector<float> x(size);
  for (float& value : x) {
    value = static_cast<float>(std::ldexp(random.normal(), static_cast<int>(random.below(160)) - 120));
    if (random.below(50) == 0) value = -0.0F;
    if (random.below(50) == 0) value = std::numeric_limits<float>::denorm_min() * static_cast<float>(random.below(99));
  }
  return x;
}

// The build has one clone of the inner loop for each vector width and the processor picks one; whichever it is must
// have the bits of the plain loop.
TEST(Sketch, Float32HasTheBitsOfTheFormat) {
  Random random(1);
  for (const std::size_t size : {0, 1, 7, 8, 31, 63, 64, 65, 127, 128, 191, 1000, 4096, 10'007, 50'000}) {
    const std::vector<float> x = wild_floats(size, random);
    expect_same_bits(sketch_from(x), as_format_says({x.begin(), x.end()}), size);
  }
}

TEST(Sketch, AlignmentOfTheElementsDoesNotMatter) {
  Random random(2);
  const std::vector<float> x = wild_floats(1000, random);
  const Sketch whole = sketch_from({x.begin() + 3, x.end()});
  const auto bytes = std::as_bytes(std::span(x)).subspan(3 * sizeof(float));
  expect_same_bits(sketch_of(DType::kFloat32, bytes), whole, 997);
}

TEST(Sketch, Float64HasTheBitsOfTheFormat) {
  Random random(3);
  for (const std::size_t size : {1, 64, 65, 1001}) {
    std::vector<double> x(size);
    for (double& value : x) value = std::ldexp(random.normal(), static_cast<int>(random.below(200)) - 100);
    expect_same_bits(sketch_from(DType::kFloat64, x), as_format_says(x), size);
  }
}

TEST(Sketch, BFloat16HasTheBitsOfTheFormat) {
  Random random(4);
  std::vector<std::uint16_t> bits(777);
  std::vector<double> values;
  for (std::uint16_t& x : bits) {
    x = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(random.normal())) >> 16);
    values.push_back(std::bit_cast<float>(std::uint32_t{x} << 16));
  }
  expect_same_bits(sketch_from(DType::kBFloat16, bits), as_format_says(values), bits.size());
}

TEST(Sketch, EveryFloat16HasItsValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const std::uint32_t exponent = bits >> 10 & 31, mantissa = bits & 1023;
    const Sketch one = sketch_from(DType::kFloat16, std::vector{static_cast<std::uint16_t>(bits)});
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(one.max_abs), mantissa != 0) << bits;
      EXPECT_EQ(std::isinf(one.max_abs), mantissa == 0) << bits;
      continue;
    }
    const double magnitude =
        exponent == 0 ? mantissa * 0x1p-24 : (1 + mantissa * 0x1p-10) * std::exp2(static_cast<double>(exponent) - 15);
    ASSERT_EQ(one.max_abs, magnitude) << bits;
    ASSERT_EQ(one, as_format_says({(bits & 0x8000) != 0 ? -magnitude : magnitude})) << bits;
  }
}

TEST(Sketch, NoElementsAreAllZero) { EXPECT_EQ(sketch_from(std::vector<float>{}), Sketch{}); }

TEST(Sketch, RefusesIntegers) { EXPECT_THROW(sketch_from(DType::kInt64, std::vector<std::int64_t>{1}), InternalError); }

TEST(Sketch, NaNShows) {
  for (const std::size_t at : {0, 63, 64, 100, 128, 129}) {
    std::vector<float> x(130, 1.0F);
    x[at] = std::numeric_limits<float>::quiet_NaN();
    const Sketch of_nan = sketch_from(x);
    EXPECT_TRUE(std::isnan(of_nan.norm)) << at;
    EXPECT_TRUE(std::isnan(of_nan.max_abs)) << at;
    EXPECT_TRUE(std::isnan(estimated_norm(of_nan))) << at;
    EXPECT_FALSE(scale_between(of_nan, of_nan).has_value()) << at;
  }
}

TEST(Sketch, InfinityShows) {
  for (const float infinite : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    for (const std::size_t at : {0, 64, 129}) {
      std::vector<float> x(130, 1.0F);
      x[at] = infinite;
      const Sketch of_infinity = sketch_from(x);
      EXPECT_EQ(of_infinity.norm, std::numeric_limits<double>::infinity());
      EXPECT_EQ(of_infinity.max_abs, std::numeric_limits<double>::infinity());
      EXPECT_FALSE(std::isfinite(estimated_norm(of_infinity)));
      EXPECT_FALSE(scale_between(sketch_from(std::vector<float>(130, 1.0F)), of_infinity).has_value());
    }
  }
}

TEST(Sketch, LargestFloatsDoNotOverflow) {
  const Sketch large = sketch_from(std::vector<float>(1000, std::numeric_limits<float>::max()));
  EXPECT_TRUE(std::isfinite(large.norm));
  EXPECT_EQ(large.max_abs, std::numeric_limits<float>::max());
}

}  // namespace
}  // namespace lockstep::trace
