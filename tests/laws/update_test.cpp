// harness/laws/update: whether a coefficient of an update is the one that is promised.
#include "harness/laws/update.h"

#include <gtest/gtest.h>

namespace lockstep::laws {
namespace {

TEST(Coefficient, HoldsToTwoPartsInAThousand) {
  for (const double promised : {0.9, -0.1, 1e-5}) {
    for (const double sign : {1.0, -1.0}) {
      EXPECT_TRUE((Coefficient{.promised = promised, .found = promised * (1 + sign * 1.9e-3)}.holds())) << promised;
      EXPECT_FALSE((Coefficient{.promised = promised, .found = promised * (1 + sign * 2.1e-3)}.holds())) << promised;
    }
  }
}

TEST(Coefficient, HoldsWithinItsRounding) {
  EXPECT_TRUE((Coefficient{.promised = 0, .found = 0.9e-6, .rounding = 1e-6}.holds()));
  EXPECT_FALSE((Coefficient{.promised = 0, .found = 1.1e-6, .rounding = 1e-6}.holds()));
}

}  // namespace
}  // namespace lockstep::laws
