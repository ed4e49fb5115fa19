// harness/compare/difference: which records are compared, and what is said of the first that differs.
#include "harness/compare/difference.h"

#include "harness/compare/scope.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::compare {
namespace {

using trace::Channel;

class ComparedRuns : public testing::Test {
 protected:
  std::optional<Divergence> first(const Scope& scope = {}) {
    return compare_runs(bench_.run("a"), bench_.run("b"), trace::all_channels(), bitwise, scope).first;
  }

  test::Bench bench_{Json{{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}}};
};

TEST_F(ComparedRuns, TheEndStepIsLeftOut) {
  test::spoil(bench_.run("b"), 0, 2, Channel::kWeight, "fc.bias");
  EXPECT_TRUE(first());
  EXPECT_TRUE(first({.first_step = 2, .end_step = 3}));
  EXPECT_FALSE(first({.end_step = 2}));
  EXPECT_FALSE(first({.first_step = 3}));
}

TEST_F(ComparedRuns, WhatEarlierStepsShowIsNotSaidOfTheFirstThatDiffers) {
  test::spoil(bench_.run("b"), 0, 2, Channel::kWeight, "fc.bias");
  EXPECT_NE(first()->cause.find("equal gradients and optimizer states gave other weights"), std::string::npos);
  for (const char* name : {"a", "b"}) {
    for (trace::Trace& rank : bench_.run(name).ranks) {
      std::erase_if(test::step_at(bench_.run(name), rank.rank, 2).records, [](const trace::Record& record) {
        return record.channel == Channel::kGradient || record.channel == Channel::kOptimizer;
      });
    }
  }
  EXPECT_NE(first()->cause.find("gradients and optimizer states were not compared"), std::string::npos)
      << first()->cause;
}

}  // namespace
}  // namespace lockstep::compare
