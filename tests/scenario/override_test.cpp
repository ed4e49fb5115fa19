// --set path=value: what it refuses.
#include <gtest/gtest.h>

#include "tests/scenario/loading.h"

namespace lockstep::scenario {
namespace {

using test::minimal;
using test::problem_of;
using test::with;

Problem refused(const std::string& override) { return problem_of(minimal(), {override}); }

TEST(Override, MustBeAPathAndAValue) {
  for (const char* text : {"train.steps", "", "=3", "train.steps 3"}) {
    const Problem problem = refused(text);
    EXPECT_EQ(problem.what, "an override is not of the form path=value");
    EXPECT_EQ(problem.where, std::string("--set ") + text);
    EXPECT_NE(problem.expected.find("train.optimizer.lr=0.2"), std::string::npos);
    EXPECT_EQ(problem.actual, "'" + std::string(text) + "'");
  }
}

TEST(Override, UnknownKeyIsJudgedLikeTheFile) {
  EXPECT_PROBLEM(refused("train.optimizer.momentun=0.9"), "unknown key 'momentun'", ": train.optimizer", "momentum",
                 "'momentun'");
  EXPECT_EQ(refused("train.optimizer.momentun=0.9").next, "did you mean 'momentum'?");
  EXPECT_EQ(refused("optimizer.lr=0.9").what, "unknown key 'optimizer'");
  EXPECT_EQ(refused("train..steps=3").what, "unknown key ''");
  EXPECT_EQ(refused("train.new.path=3").what, "unknown key 'new'");
}

TEST(Override, ValueIsJudgedLikeTheFile) {
  EXPECT_PROBLEM(refused("train.steps=many"), "", ": train.steps", "integer", "\"many\"");
  EXPECT_PROBLEM(refused("train.steps="), "", ": train.steps", "integer", "\"\"");
  EXPECT_PROBLEM(refused("train.optimizer.lr=1e999"), "", ": train.optimizer.lr", "number", "\"1e999\"");
  EXPECT_PROBLEM(refused("train.model={\"kind\":\"lenett\"}"), "unknown kind", ": train.model.kind", "lenet",
                 "'lenett'");
  EXPECT_PROBLEM(refused("name=../x"), "", ": name", "matching", "../x");
}

TEST(Override, CannotGoIntoAPlainValue) {
  const Problem problem = refused("train.steps.x=3");
  EXPECT_EQ(problem.what, "an override goes into a value that has no key 'x'");
  EXPECT_EQ(problem.where, "--set train.steps.x=3");
  EXPECT_FALSE(problem.expected.empty());
  EXPECT_EQ(problem.actual, "8");
}

TEST(Override, NamesAnItemOfAListByItsIndex) {
  const Json document = with("train.faults", {{{"kind", "kill"}, {"step", 1}, {"rank", 0}}});
  for (const char* index : {"1", "99999999999999999999999999"}) {
    const Problem problem = problem_of(document, {std::string("train.faults.") + index + ".rank=0"});
    EXPECT_EQ(problem.what, "an override names an item that does not exist");
    EXPECT_EQ(problem.expected, "an index below 1");
    EXPECT_EQ(problem.actual, "'" + std::string(index) + "'");
  }
  for (const char* key : {"x", "-1", "", "0x0", "1e0"}) {
    const Problem problem = problem_of(document, {std::string("train.faults.") + key + "=0"});
    EXPECT_EQ(problem.expected, "the index of an item") << key;
  }
}

}  // namespace
}  // namespace lockstep::scenario
