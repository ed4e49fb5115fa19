// What the sketch is for: distances and factors between tensors that are no longer there.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/trace/sketch.h"

#include "tests/trace/random.h"

namespace lockstep::trace {
namespace {

using test::Random;

Sketch sketch(const std::vector<double>& elements) {
  return sketch_of(DType::kFloat64, std::as_bytes(std::span(elements)));
}
Sketch sketch(const std::vector<float>& elements) {
  return sketch_of(DType::kFloat32, std::as_bytes(std::span(elements)));
}

double norm_of(const std::vector<double>& x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares);
}

std::vector<double> normals(std::size_t size, Random& random) {
  std::vector<double> x(size);
  for (double& value : x) value = random.normal();
  return x;
}

/// A shape that differences of trainings have.
struct Pattern {
  std::string name;
  std::function<void(std::vector<double>&, Random&)> fill;
};

/// One column of a row-major matrix of `columns` columns.
void fill_column(std::vector<double>& x, std::size_t columns, Random& random, bool constant) {
  for (std::size_t i = random.below(columns); i < x.size(); i += columns) x[i] = constant ? 1 : random.normal();
}

const std::vector<Pattern> kPatterns = {
    {"dense", [](auto& x, Random& r) { x = normals(x.size(), r); }},
    {"one element", [](auto& x, Random& r) { x[r.below(x.size())] = 3; }},
    {"a few elements",
     [](auto& x, Random& r) {
       for (int i = 0; i < 5; ++i) x[r.below(x.size())] = r.normal();
     }},
    {"a row", [](auto& x, Random& r) { std::fill_n(x.begin() + static_cast<long>(r.below(x.size() - 64)), 64, 1.0); }},
    {"all alike", [](auto& x, Random&) { std::fill(x.begin(), x.end(), 0.5); }},
    {"a constant column of 64", [](auto& x, Random& r) { fill_column(x, 64, r, true); }},
    {"a column of 64", [](auto& x, Random& r) { fill_column(x, 64, r, false); }},
    {"a column of 32", [](auto& x, Random& r) { fill_column(x, 32, r, true); }},
    {"a column of 512", [](auto& x, Random& r) { fill_column(x, 512, r, true); }},
    {"a column of 10", [](auto& x, Random& r) { fill_column(x, 10, r, true); }},
    {"a column of any width", [](auto& x, Random& r) { fill_column(x, 1 + r.below(300), r, true); }},
};

TEST(SketchDifference, NormIsRightWithinAFactorOfTwo) {
  Random random(1);
  int cases = 0, wrong = 0;
  for (int round = 0; round < 40; ++round) {
    for (const Pattern& pattern : kPatterns) {
      const std::size_t size = 65 + random.below(6000);
      std::vector<double> change(size), a = normals(size, random), b = a;
      pattern.fill(change, random);
      for (std::size_t i = 0; i < size; ++i) b[i] += change[i];
      const double ratio = difference(sketch(b), sketch(a)).norm / norm_of(change);
      ++cases;
      if (ratio >= 0.5 && ratio <= 2) continue;
      ++wrong;
      std::printf("%s, %zu elements: %g\n", pattern.name.c_str(), size, ratio);
    }
  }
  EXPECT_GE(cases, 400);
  EXPECT_LE(wrong, 1);  // 99.9 %
}

TEST(SketchDifference, NormIsOfTheRightSizeOnAverage) {
  Random random(2);
  double sum = 0;
  constexpr int kRounds = 300;
  for (int i = 0; i < kRounds; ++i) {
    const std::vector<double> x = normals(100 + random.below(1000), random);
    sum += std::pow(estimated_norm(sketch(x)) / norm_of(x), 2);
  }
  EXPECT_NEAR(sum / kRounds, 1, 0.05);
}

TEST(SketchDifference, IsThatOfTheDifference) {
  Random random(3);
  std::vector<double> a(1000), b(1000), c(1000);
  for (std::size_t i = 0; i < a.size(); ++i) {  // small integers: every sum is exact
    a[i] = static_cast<double>(random.below(2000)) - 1000;
    b[i] = static_cast<double>(random.below(2000)) - 1000;
    c[i] = a[i] - b[i];
  }
  const Sketch d = difference(sketch(a), sketch(b));
  EXPECT_EQ(d.buckets, sketch(c).buckets);
  EXPECT_EQ(d.max_abs, 0);
  EXPECT_EQ(d.norm, estimated_norm(sketch(c)));
}

TEST(SketchDifference, OfEqualsIsZero) {
  Random random(4);
  const Sketch a = sketch(normals(1000, random));
  EXPECT_EQ(difference(a, a), Sketch{});
}

TEST(SketchScale, PowersOfTwoAreExact) {
  Random random(5);
  for (const float factor : {2.0F, 4.0F, 8.0F, 0.5F, 0.25F, -1.0F, 1.0F}) {
    std::vector<float> a(3000), b;
    for (float& value : a) value = static_cast<float>(random.normal());
    for (const float value : a) b.push_back(factor * value);
    const auto scale = scale_between(sketch(a), sketch(b));
    ASSERT_TRUE(scale.has_value());
    EXPECT_EQ(scale->factor, factor);
    EXPECT_EQ(scale->residual, 0);
  }
}

TEST(SketchScale, WorldSizesAndTheirInversesAreFoundToRounding) {
  Random random(6);
  for (const double world : {3.0, 5.0, 6.0, 7.0, 100.0}) {
    for (const double factor : {world, 1 / world}) {
      std::vector<float> a(3000), b;
      for (float& value : a) value = static_cast<float>(random.normal());
      for (const float value : a) b.push_back(static_cast<float>(factor * value));
      const auto scale = scale_between(sketch(a), sketch(b));
      ASSERT_TRUE(scale.has_value());
      EXPECT_NEAR(scale->factor / factor, 1, 1e-7);
      EXPECT_LT(scale->residual, 1e-6);
    }
  }
}

TEST(SketchScale, OtherTensorsAreNoMultiple) {
  Random random(7);
  for (int i = 0; i < 50; ++i) {
    const auto scale = scale_between(sketch(normals(1000, random)), sketch(normals(1000, random)));
    ASSERT_TRUE(scale.has_value());
    EXPECT_GT(scale->residual, 0.5);
  }
}

TEST(SketchScale, ZeroHasNone) {
  Random random(8);
  const Sketch zero = sketch(std::vector<double>(100)), some = sketch(normals(100, random));
  EXPECT_FALSE(scale_between(zero, some).has_value());
  EXPECT_FALSE(scale_between(some, zero).has_value());
  EXPECT_FALSE(scale_between(zero, zero).has_value());
}

}  // namespace
}  // namespace lockstep::trace
