// One or few elements of a tensor that differ on one rank: how few, and how far apart the rest may be.
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "harness/diagnosis/diagnosers.h"

#include "tests/support/tiny/diagnosed.h"

namespace lockstep::diagnosis {
namespace {

using test::Bench;
using trace::Channel;
using trace::Record;

constexpr std::int64_t kRanks = 3, kOdd = 2, kStep = 1;

/// Cause where rank 2 of "b" holds other numbers in its weights.
std::string corruption_named(const Bench& bench, const std::string& tensor = "fc.weight") {
  return test::cause_named(bench, test::parted(kStep, Channel::kWeight, tensor, kOdd), suspects_in_corruption);
}

/// Moves the first buckets of a tensor of that rank by these numbers.
void move(Bench& bench, const std::vector<double>& by, const std::string& tensor = "fc.weight") {
  Record& record = test::at(bench.run("b"), kOdd, kStep, Channel::kWeight, tensor);
  for (std::size_t i = 0; i < by.size(); ++i) record.sketch->buckets[i] += by[i];
  record.digest.low ^= 1;
}

TEST(Corruption, IsInAnEighthOfTheBucketsAtMost) {
  const auto of_buckets = [](std::size_t count) {
    Bench bench(test::pair(kRanks, kRanks));
    move(bench, std::vector<double>(count, 0.01));
    return corruption_named(bench);
  };
  EXPECT_EQ(of_buckets(4), "hw.sdc_rank");
  EXPECT_EQ(of_buckets(5), "");
}

/// One element of a tensor moves by 1, the others by this part of its square together.
TEST(Corruption, LeavesATrifleInTheOtherBuckets) {
  const auto beside = [](double rest) {
    Bench bench(test::pair(kRanks, kRanks));
    std::vector<double> by(trace::Sketch::kBuckets, std::sqrt(rest / (trace::Sketch::kBuckets - 1)));
    by[0] = 1;
    move(bench, by);
    return corruption_named(bench);
  };
  EXPECT_EQ(beside(0.0008), "hw.sdc_rank");
  EXPECT_EQ(beside(0.00125), "") << "eight buckets hold 999 parts of 1,000";
}

TEST(Corruption, IsNotToldInATensorOfThreeElements) {
  const auto of_elements = [](std::size_t count) {
    Bench bench(test::pair(kRanks, kRanks));
    for (const char* run : {"a", "b"}) {
      for (std::int64_t rank = 0; rank < kRanks; ++rank)
        test::step_at(bench.run(run), rank, kStep)
            .records.push_back(test::floats(Channel::kWeight, "up.bias", std::vector<float>(count, 1)));
    }
    move(bench, {0.5}, "up.bias");
    return corruption_named(bench, "up.bias");
  };
  EXPECT_EQ(of_elements(3), "");
  EXPECT_EQ(of_elements(4), "hw.sdc_rank");
}

TEST(Corruption, LeavesOtherTensorsATenthAsFarApartAtMost) {
  const auto with_other_at = [](double part) {
    Bench bench(test::pair(kRanks, kRanks));
    move(bench, {1});
    move(bench, {part}, "fc.bias");
    return corruption_named(bench);
  };
  EXPECT_EQ(with_other_at(0.09), "hw.sdc_rank");
  EXPECT_EQ(with_other_at(0.11), "");
}

}  // namespace
}  // namespace lockstep::diagnosis
