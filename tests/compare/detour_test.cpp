// Numbers that went through 16 bits on their way into a sum: told from every element of it.
#include "harness/compare/detour.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include <gtest/gtest.h>

namespace lockstep::compare {
namespace {

using trace::DType;
using trace::StoredTensor;
using Values = std::vector<float>;

StoredTensor stored(const Values& values, DType dtype = DType::kFloat32) {
  StoredTensor tensor{.name = "x", .dtype = dtype, .shape = {static_cast<std::int64_t>(values.size())}, .bytes = {}};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  return tensor;
}

/// Own gradients of so many ranks, and sums that are made of them.
class Sums {
 public:
  explicit Sums(std::size_t ranks) : own_(ranks, Values(500)) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1e-2F);
    for (Values& values : own_) std::generate(values.begin(), values.end(), [&] { return normal(random); });
  }

  std::optional<Detour> of(const std::function<float(std::size_t rank, float own)>& addend, float change = 0) const {
    Values sums = added(addend);
    sums[7] += change;
    return detour_of(own(), stored(sums));
  }

  /// Added up backwards, as no bound may mind.
  Values added(const std::function<float(std::size_t rank, float own)>& addend) const {
    Values sums(own_[0].size());
    for (std::size_t i = 0; i < sums.size(); ++i) {
      for (std::size_t rank = own_.size(); rank-- > 0;) sums[i] += addend(rank, own_[rank][i]);
    }
    return sums;
  }

  std::vector<StoredTensor> own() const {
    std::vector<StoredTensor> tensors;
    for (const Values& values : own_) tensors.push_back(stored(values));
    return tensors;
  }

 private:
  std::vector<Values> own_;
};

float bf16(float value) { return static_cast<float>(Eigen::bfloat16(value)); }
float fp16(float value) { return static_cast<float>(Eigen::half(value)); }

TEST(Detour, OfOneRankOrOfAll) {
  for (const std::size_t ranks : {1, 2, 3, 8}) {
    const Sums sums(ranks);
    const auto weight = 1 / static_cast<float>(ranks);
    const std::size_t last = ranks - 1;
    const auto one = sums.of([&](std::size_t rank, float own) { return (rank == last ? bf16(own) : own) * weight; });
    ASSERT_TRUE(one) << ranks;
    EXPECT_EQ(one->through, DType::kBFloat16);
    EXPECT_EQ(one->ranks, std::vector{last});
    const auto all = sums.of([&](std::size_t, float own) { return fp16(own * weight); });
    ASSERT_TRUE(all) << ranks;
    EXPECT_EQ(all->through, DType::kFloat16);
    EXPECT_EQ(all->ranks.size(), ranks);
    EXPECT_TRUE(sums.of([&](std::size_t, float own) { return bf16(own); })) << "a sum";
  }
}

TEST(Detour, NoneOfPlainSumsAndOfOtherMistakes) {
  const Sums sums(3);
  const auto mean = [](std::size_t, float own) { return own / 3; };
  EXPECT_FALSE(sums.of(mean));
  EXPECT_FALSE(sums.of([](std::size_t, float own) { return own; }));
  EXPECT_FALSE(sums.of(mean, 1e-4F)) << "one element";
  EXPECT_FALSE(sums.of([](std::size_t rank, float own) { return own * (rank == 1 ? 1 + 0x1p-9F : 1) / 3; }));
  EXPECT_FALSE(sums.of([](std::size_t rank, float own) { return rank == 1 ? 0 : bf16(own) / 3; }));
  EXPECT_FALSE(sums.of([](std::size_t, float own) { return bf16(own) / 3; }, 1e-4F)) << "and one element";
}

TEST(Reduction, IsTheMeanOrTheSumInEveryElement) {
  for (const std::size_t ranks : {2, 3, 8}) {
    const Sums sums(ranks);
    for (const float weight : {1.0F, 1 / static_cast<float>(ranks), 1 / static_cast<float>(ranks + 1)}) {
      Values reduced = sums.added([&](std::size_t, float own) { return own * weight; });
      EXPECT_EQ(is_reduction_of(sums.own(), stored(reduced)), weight * static_cast<float>(ranks + 1) != 1) << weight;
      const auto least = std::min_element(reduced.begin(), reduced.end(),
                                          [](float a, float b) { return std::fabs(a) < std::fabs(b); });
      *least = 0;  // of no weight in any norm
      EXPECT_EQ(is_reduction_of(sums.own(), stored(reduced)), false) << weight;
    }
  }
  EXPECT_EQ(is_reduction_of({}, stored({1})), std::nullopt);
  EXPECT_EQ(is_reduction_of({stored({1}, DType::kBFloat16)}, stored({1})), std::nullopt);
}

TEST(Detour, NothingOfOtherTensors) {
  EXPECT_FALSE(detour_of({}, stored({1, 2})));
  EXPECT_FALSE(detour_of({stored({1, 2, 3})}, stored({1, 2})));
  EXPECT_FALSE(detour_of({stored({1, 2}, DType::kInt32)}, stored({1, 2})));
}

TEST(Detour, SaysWhose) {
  EXPECT_EQ((Detour{.through = DType::kFloat16, .ranks = {0, 2}}.text()), "those of rank 0, 2 rounded to float16");
}

}  // namespace
}  // namespace lockstep::compare
