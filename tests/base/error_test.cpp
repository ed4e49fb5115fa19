#include "harness/base/error.h"

#include <gtest/gtest.h>

#include "harness/base/problems.h"

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

TEST(Error, NoPartBreaksItsLine) {
  EXPECT_EQ(describe({.what = "w\n::error::x", .where = "p\r\n##vso[x]", .next = "n\u202e"}),
            "w\\n::error::x\n  where:    p\\r\\n#\\x23vso[x]\n  next:     n\\u202e");
}

TEST(Error, TellsSeveralWithTheirNumbers) {
  const InputError error(ProblemList{{{.what = "w", .where = "p"}, {.what = "x\ny", .where = "q"}}});
  EXPECT_STREQ(error.what(), "2 errors\n1. w\n  where:    p\n2. x\\ny\n  where:    q");
  EXPECT_EQ(error.problem().what, "w");
  EXPECT_EQ(error.problems().size(), 2U);
  EXPECT_STREQ(InputError(ProblemList{{{.what = "w"}}}).what(), "w");
}

TEST(Problems, AreCollectedAndToldAtOnce) {
  Problems problems;
  problems.throw_if_any();
  EXPECT_TRUE(problems.collect([] {}));
  EXPECT_FALSE(problems.collect([] { throw InputError({.what = "a"}); }));
  EXPECT_FALSE(problems.collect([] { throw InputError(ProblemList{{{.what = "b"}, {.what = "c"}}}); }));
  EXPECT_THROW(problems.collect([] { throw DamagedFile({.what = "evidence"}); }), DamagedFile);
  try {
    problems.throw_if_any();
    FAIL() << "nothing was told";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problems().size(), 3U);
  }
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
