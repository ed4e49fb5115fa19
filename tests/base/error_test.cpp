#include "harness/base/error.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Error, DescribesEveryPartOnALineOfItsOwn) {
  EXPECT_EQ(describe({.what = "w", .where = "p", .expected = "e", .actual = "a", .next = "n"}),
            "w\n  where:    p\n  expected: e\n  actual:   a\n  next:     n");
}

TEST(Error, LeavesOutEmptyParts) {
  EXPECT_EQ(describe({.what = "w", .actual = "a"}), "w\n  actual:   a");
  EXPECT_EQ(describe({.what = "w"}), "w");
}

TEST(Error, CarriesItsProblem) {
  const DamagedFile error({.what = "w", .where = "p"});
  EXPECT_STREQ(error.what(), "w\n  where:    p");
  EXPECT_EQ(error.problem().where, "p");
}

TEST(Error, CheckNamesInvariantAndPlace) {
  const int three = 3;
  EXPECT_NO_THROW(LOCKSTEP_CHECK(three == 3));
  try {
    LOCKSTEP_CHECK(three == 4);
    FAIL() << "it holds";
  } catch (const InternalError& error) {
    EXPECT_EQ(error.problem().expected, "three == 4");
    EXPECT_NE(error.problem().where.find("error_test.cpp:"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep
