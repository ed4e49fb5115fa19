// Parts of what is exhaustive: together they are all of it, and a part that is misread is no part.
#include "tests/support/part.h"

#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include "tests/support/support.h"

namespace lockstep::test {
namespace {

/// LOCKSTEP_TEST_PART as it is told, until the end.
class AsPart {
 public:
  explicit AsPart(const char* part) {
    if (const char* before = std::getenv("LOCKSTEP_TEST_PART")) before_ = before;
    ::setenv("LOCKSTEP_TEST_PART", part, 1);
  }
  ~AsPart() {
    if (before_.empty()) {
      ::unsetenv("LOCKSTEP_TEST_PART");
    } else {
      ::setenv("LOCKSTEP_TEST_PART", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

TEST(Part, AllPartsTogetherTakeEveryCaseOnce) {
  std::multiset<std::size_t> taken;
  for (const char* part : {"1/3", "2/3", "3/3"}) {
    const AsPart as(part);
    EXPECT_FALSE(takes_all());
    for (std::size_t i = 0; i < 20; ++i) {
      if (in_part(i)) taken.insert(i);
    }
  }
  for (std::size_t i = 0; i < 20; ++i) EXPECT_EQ(taken.count(i), 1U) << i;
}

TEST(Part, AShortListIsNeverLeftOut) {
  std::set<std::size_t> taken;
  for (const char* part : {"1/4", "2/4", "3/4", "4/4"}) {
    const AsPart as(part);
    const std::size_t before = taken.size();
    std::size_t here = 0;
    for (std::size_t i = 0; i < 2; ++i) {
      if (!in_part(i, 2)) continue;
      taken.insert(i);
      ++here;
    }
    EXPECT_EQ(here, 1U) << part << " after " << before;
  }
  EXPECT_EQ(taken, (std::set<std::size_t>{0, 1}));
}

TEST(Part, OfOneTakesAll) {
  const AsPart as("1/1");
  EXPECT_TRUE(takes_all());
  for (std::size_t i = 0; i < 5; ++i) EXPECT_TRUE(in_part(i));
}

TEST(Part, ThatIsMisreadIsAnError) {
  for (const char* wrong : {"", "2", "0/4", "5/4", "1/0", "a/4", "1/4x"}) {
    const AsPart as(wrong);
    EXPECT_ANY_THROW(in_part(0)) << wrong;
  }
}

/// What a script of ci/ says with common.sh before it.
Outcome in_ci(const std::string& script) {
  return run_program({"/bin/bash", "-c", "source ci/common.sh; " + script}, 30, source_root());
}

TEST(Part, FollowsTheSeed) {
  EXPECT_EQ(in_ci("for seed in 0 1 2 3 4; do part_of $seed 4; done").out, "1/4\n2/4\n3/4\n4/4\n1/4\n");
  EXPECT_EQ(in_ci("LOCKSTEP_CI_SEED=123456789 commit_seed").out, "123456789\n");
  for (const char* wrong : {"x", "-1", "1.5", "007", "99999999999999999999"})
    EXPECT_EQ(in_ci("LOCKSTEP_CI_SEED=" + std::string(wrong) + " commit_seed").exit_code, 2) << wrong;
}

}  // namespace
}  // namespace lockstep::test
