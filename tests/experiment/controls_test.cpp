#include "harness/experiment/controls.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace lockstep::test {
namespace {

using blaming::NamedControl;
using Names = std::vector<std::string>;

Names chosen(const std::string& list) {
  Names names;
  for (const NamedControl& one : blaming::chosen_controls(list)) names.push_back(one.name());
  return names;
}

TEST(Controls, AreAllOfThemWhereNoneIsNamed) {
  EXPECT_EQ(chosen("").size(), blaming::controls().size());
  std::set<std::string> names;
  for (const NamedControl& one : blaming::controls()) {
    EXPECT_TRUE(names.insert(one.name()).second) << one.name();
    EXPECT_FALSE(one.meaning.empty()) << one.name();
  }
}

TEST(Controls, AreThoseThatAreNamedInTheirOwnOrder) {
  EXPECT_EQ(chosen("isa,threads"), (Names{"threads", "isa"}));
  EXPECT_EQ(chosen("+fill"), (Names{"fill"}));
  EXPECT_EQ(chosen("threads,isa,-isa"), (Names{"threads"}));
}

TEST(Controls, AreAllButThoseThatAreTakenOut) {
  const Names left = chosen("-float64,-exact");
  EXPECT_EQ(left.size(), blaming::controls().size() - 2);
  EXPECT_EQ(std::count(left.begin(), left.end(), "float64"), 0);
}

void expect_refused(const std::string& list, const std::string& what, const std::string& next) {
  try {
    blaming::chosen_controls(list);
    ADD_FAILURE() << list;
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().what, what);
    EXPECT_NE(error.problem().next.find(next), std::string::npos) << error.problem().next;
  }
}

TEST(Controls, AreRefusedByAnUnknownName) {
  expect_refused("treads", "unknown control 'treads'", "did you mean 'threads'");
  expect_refused("threads,-threads", "no control is left", "");
}

/// A golden was accepted without them.
TEST(Controls, TellWhichTrainAnother) {
  Names another;
  for (const NamedControl& one : blaming::controls()) {
    if (one.kind == NamedControl::Kind::kAnotherTraining) another.push_back(one.name());
  }
  EXPECT_EQ(another, (Names{"two_ranks", "one_rank", "float64", "exact"}));
}

}  // namespace
}  // namespace lockstep::test
