// The same numbers of a matrix in other places, told from other numbers.
#include <utility>

#include "harness/diagnosis/diagnosers.h"

#include "tests/support/tiny/diagnosed.h"

namespace lockstep::diagnosis {
namespace {

using test::Bench;
using trace::Channel;

constexpr std::int64_t kRows = 4, kColumns = 8;

std::vector<float> matrix() {
  std::vector<float> elements;
  for (int i = 0; i < kRows * kColumns; ++i) elements.push_back(0.3F * static_cast<float>((7 * i) % 32) - 4.1F);
  return elements;
}

std::vector<float> as_if_transposed(const std::vector<float>& elements) {
  std::vector<float> others(elements.size());
  for (std::size_t i = 0; i < elements.size(); ++i) others[i] = elements[i % kRows * kColumns + i / kRows];
  return others;
}

/// Cause where rank 1 of "b" holds `elements` in place of the matrix.
std::string cause_of_layout(const std::vector<float>& elements, std::vector<std::int64_t> shape = {kRows, kColumns}) {
  const Json check = {{"that", "equal"}, {"variants", {"a", "b"}}};
  Bench bench(Json{{"checks", {check}}});
  for (const char* variant : {"a", "b"}) {
    for (const std::int64_t rank : {0, 1}) {
      const bool other = rank == 1 && variant == std::string("b");
      test::put(bench.run(variant), rank, 2,
                test::floats(Channel::kWeight, "fc.weight", other ? elements : matrix(), shape));
    }
  }
  return test::cause_named(bench, test::parted(2, Channel::kWeight, "fc.weight", 1), suspects_in_layout);
}

TEST(Layout, AMatrixReadAlongTheOtherAxis) {
  EXPECT_EQ(cause_of_layout(as_if_transposed(matrix())), "comm.noncontiguous");
}

TEST(Layout, OtherNumbersAreNoOtherPlaces) {
  EXPECT_EQ(cause_of_layout(matrix()), "");
  for (const float factor : {-1.0F, 0.5F, 1.0001F}) {
    std::vector<float> scaled = matrix();
    for (float& element : scaled) element *= factor;
    EXPECT_EQ(cause_of_layout(scaled), "") << factor;
  }
  std::vector<float> flipped = matrix();
  flipped[3] += 0.01F;
  EXPECT_EQ(cause_of_layout(flipped), "");
  std::vector<float> both = as_if_transposed(matrix());
  both[3] += 0.01F;
  EXPECT_EQ(cause_of_layout(both), "");
}

/// Neighbours of the matrix's numbers are 0.3 apart, and its norm is 16.0.
TEST(Layout, TwoAlikeNumbersThatChangePlacesAreNoOtherLayout) {
  const auto exchanged = [](std::size_t one, std::size_t other) {
    std::vector<float> elements = matrix();
    std::swap(elements.at(one), elements.at(other));
    return cause_of_layout(elements);
  };
  EXPECT_EQ(exchanged(0, 23), "") << "0.027 of the norm is left";
  EXPECT_EQ(exchanged(0, 14), "comm.noncontiguous") << "0.053";
}

TEST(Layout, AVectorHasOneLayout) { EXPECT_EQ(cause_of_layout(as_if_transposed(matrix()), {kRows * kColumns}), ""); }

}  // namespace
}  // namespace lockstep::diagnosis
