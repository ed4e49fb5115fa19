// harness/compare/element: the first unequal element, and how the others differ.
#include "harness/compare/element.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

namespace lockstep::compare {
namespace {

using trace::DType;
using trace::StoredTensor;

template <typename T>
StoredTensor tensor(DType dtype, const std::vector<T>& values, std::vector<std::int64_t> shape) {
  StoredTensor tensor{.name = "x", .dtype = dtype, .shape = std::move(shape), .bytes = {}};
  tensor.bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return tensor;
}

StoredTensor floats(const std::vector<float>& values, std::vector<std::int64_t> shape) {
  return tensor(DType::kFloat32, values, std::move(shape));
}

TEST(Element, IsTheFirstInRowMajorOrder) {
  const auto found = first_unequal_element(floats({1, 2, 3, 4, 5, 6}, {2, 3}), floats({1, 2, 3, 4, 5.5, 9}, {2, 3}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->index, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(found->left, 5);
  EXPECT_EQ(found->right, 5.5);
  EXPECT_EQ(found->left_bits, "0x40a00000");
  EXPECT_EQ(found->right_bits, "0x40b00000");
  EXPECT_EQ(found->ulps, 1U << 20);
  EXPECT_DOUBLE_EQ(*found->ratio(), 1.1);
  EXPECT_EQ(found->unequal, 2U);
  EXPECT_EQ(found->of, 6U);
  EXPECT_EQ(found->largest, 3);
  EXPECT_FALSE(found->factor);
}

TEST(Element, OneFlippedBitIsNoFactor) {
  std::vector<float> values(64, 1);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 7;
  std::vector<float> other = values;
  other[63] = std::nextafter(other[63], 100.0F);  // the largest, by which a factor would be taken
  const auto found = first_unequal_element(floats(values, {64}), floats(other, {64}));
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->factor) << found->text();
  EXPECT_EQ(found->text().find("x left"), std::string::npos) << found->text();
}

TEST(Element, BeyondRoundingIsNoLastBit) {
  const auto clean = floats({1, 2, 3, 4}, {4}), other = floats({1 + 0x1p-23F, 2, 3.5F, 5}, {4});
  EXPECT_EQ(first_unequal_element(clean, other)->index[0], 0);
  EXPECT_EQ(first_unequal_element(clean, other, /*beyond_rounding=*/true)->index[0], 2) << "the first that is large";
  EXPECT_EQ(first_unequal_element(clean, other, true)->unequal, 3U);
}

TEST(Element, BeyondRoundingIsMoreThanSixtyFourTimesWhatCameBefore) {
  const auto place = [](float times) {
    return first_unequal_element(floats({0, 0}, {2}), floats({0x1p-20F, times * 0x1p-20F}, {2}), true)->index[0];
  };
  EXPECT_EQ(place(63), 0);
  EXPECT_EQ(place(65), 1);
}

TEST(Element, KnowsTheOrderOfOtherStrides) {
  const auto is_other_layout = [](const std::vector<float>& left, const std::vector<float>& right,
                                  const std::vector<std::int64_t>& shape) {
    const bool one = first_unequal_element(floats(left, shape), floats(right, shape))->is_other_layout;
    EXPECT_EQ(first_unequal_element(floats(right, shape), floats(left, shape))->is_other_layout, one);
    return one;
  };
  EXPECT_TRUE(is_other_layout({1, 2, 3, 4, 5, 6}, {1, 4, 2, 5, 3, 6}, {2, 3})) << "transposed";
  EXPECT_FALSE(is_other_layout({1, 2, 3, 4, 5, 6}, {4, 5, 6, 1, 2, 3}, {2, 3})) << "rows exchanged";
  EXPECT_FALSE(is_other_layout({1, 2, 3, 4, 5, 6}, {1, 4, 2, 5, 3, 7}, {2, 3})) << "and one element more";
  EXPECT_FALSE(is_other_layout({1, 2, 3, 4, 5, 6}, {6, 5, 4, 3, 2, 1}, {6})) << "a vector has one layout";
  // Channels last: [1, 2, 2, 2], channel by channel against place by place.
  EXPECT_TRUE(is_other_layout({1, 2, 3, 4, 5, 6, 7, 8}, {1, 5, 2, 6, 3, 7, 4, 8}, {1, 2, 2, 2}));
}

TEST(Element, NothingOfEqualBitsOrOtherShapes) {
  EXPECT_FALSE(first_unequal_element(floats({1, 2}, {2}), floats({1, 2}, {2})));
  EXPECT_FALSE(first_unequal_element(floats({1, 2}, {2}), floats({1, 3}, {2, 1})));
  EXPECT_FALSE(first_unequal_element(floats({1, 2}, {2}), tensor<double>(DType::kFloat64, {3}, {2})));
  EXPECT_FALSE(first_unequal_element(floats({NAN}, {}), floats({NAN}, {})));
}

TEST(Element, UlpsCountFloatsBetween) {
  const float next = std::nextafter(1.0F, 2.0F);
  EXPECT_EQ(first_unequal_element(floats({1}, {}), floats({next}, {}))->ulps, 1U);
  EXPECT_EQ(first_unequal_element(floats({0.0F}, {}), floats({-0.0F}, {}))->ulps, 0U);
  const float least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(first_unequal_element(floats({-least}, {}), floats({least}, {}))->ulps, 2U);
  EXPECT_FALSE(first_unequal_element(floats({1}, {}), floats({NAN}, {}))->ulps);
  EXPECT_EQ(first_unequal_element(tensor<double>(DType::kFloat64, {1}, {}),
                                  tensor<double>(DType::kFloat64, {std::nextafter(1.0, 2.0)}, {}))
                ->ulps,
            1U);
  // 1 and the next bfloat16; -2 and -4 in float16.
  const auto brain = first_unequal_element(tensor<std::uint16_t>(DType::kBFloat16, {0x3f80}, {}),
                                           tensor<std::uint16_t>(DType::kBFloat16, {0x3f81}, {}));
  EXPECT_EQ(brain->right, 1.0078125);
  EXPECT_EQ(brain->ulps, 1U);
  EXPECT_EQ(brain->right_bits, "0x3f81");
  const auto half = first_unequal_element(tensor<std::uint16_t>(DType::kFloat16, {0xc000}, {}),
                                          tensor<std::uint16_t>(DType::kFloat16, {0xc400}, {}));
  EXPECT_EQ(half->left, -2);
  EXPECT_EQ(half->right, -4);
}

TEST(Element, IntegersHaveNoUlps) {
  const auto found = first_unequal_element(tensor<std::int64_t>(DType::kInt64, {7, -1}, {2}),
                                           tensor<std::int64_t>(DType::kInt64, {7, 4}, {2}));
  EXPECT_EQ(found->left, -1);
  EXPECT_EQ(found->right, 4);
  EXPECT_FALSE(found->ulps);
  EXPECT_FALSE(found->factor);
}

TEST(Element, OneFactorForAllIsSeen) {
  EXPECT_EQ(first_unequal_element(floats({0, 2, -3}, {3}), floats({0, 8, -12}, {3}))->factor, 4);
  const float third = 1.0F / 3;
  EXPECT_NEAR(*first_unequal_element(floats({1, 2, 3}, {3}), floats({third, 2 * third, 1}, {3}))->factor, 1 / 3.0,
              1e-7);
  EXPECT_FALSE(first_unequal_element(floats({1, 2, 3}, {3}), floats({4, 8, 12.001F}, {3}))->factor);
  EXPECT_FALSE(first_unequal_element(floats({0, 2}, {2}), floats({1, 8}, {2}))->factor);
  EXPECT_FALSE(first_unequal_element(floats({0, 2}, {2}), floats({0, 8}, {2}))->factor);  // of one number
}

TEST(Element, SaysItInOneLine) {
  const std::string text = first_unequal_element(floats({1, 2, 3, 4}, {2, 2}), floats({1, 4, 6, 8}, {2, 2}))->text();
  EXPECT_EQ(text,
            "[0, 1]: 2 (0x40000000) and 4 (0x40800000), ratio 2, 8388608 ULPs; 3 of 4 elements differ, by at most 4");
}

}  // namespace
}  // namespace lockstep::compare
