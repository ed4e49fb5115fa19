#include "harness/base/side_by_side.h"

#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(SideBySide, CallsEachOnce) {
  std::vector<int> calls(100);
  side_by_side(calls.size(), [&](std::size_t i) { ++calls[i]; });
  EXPECT_EQ(calls, std::vector<int>(100, 1));
  side_by_side(0, [](std::size_t) { FAIL(); });
}

TEST(SideBySide, ThrowsTheFirstErrorOnceAllAreDone) {
  std::vector<int> calls(20);
  try {
    side_by_side(calls.size(), [&](std::size_t i) {
      ++calls[i];
      if (i % 7 == 6) throw std::runtime_error(std::to_string(i));
    });
    FAIL() << "an error is thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "6");
  }
  EXPECT_EQ(calls, std::vector<int>(20, 1));
}

}  // namespace
}  // namespace lockstep
