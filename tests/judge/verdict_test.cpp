#include "harness/judge/verdict.h"

#include <gtest/gtest.h>

// How the parts of a verdict make the whole: order of weight and exit codes.

namespace lockstep::judge {
namespace {

CheckReport check_with(Status status, const std::string& scenario = "s") {
  return {.scenario = scenario, .status = status};
}
RunReport run_with(Status status, const std::string& run = "s/a/0") { return {.run = run, .status = status}; }

TEST(Verdict, HasTheDocumentedExitCodes) {
  EXPECT_EQ(exit_code(Status::kAgree), 0);
  EXPECT_EQ(exit_code(Status::kDivergence), 1);
  EXPECT_EQ(exit_code(Status::kInvalid), 2);
  EXPECT_EQ(exit_code(Status::kBaseline), 3);
  EXPECT_EQ(exit_code(Status::kInconclusive), 4);
  EXPECT_EQ(exit_code(Status::kUnsupported), 77);
  EXPECT_EQ(exit_code(Status::kInterrupted), 130);
}

TEST(Verdict, TakesTheWorstOfAllParts) {
  const Status by_weight[] = {Status::kInterrupted, Status::kInvalid,     Status::kDivergence, Status::kInconclusive,
                              Status::kBaseline,    Status::kUnsupported, Status::kAgree};
  for (std::size_t worse = 0; worse < std::size(by_weight); ++worse) {
    for (std::size_t better = worse; better < std::size(by_weight); ++better) {
      const Status heavy = by_weight[worse], light = by_weight[better];
      EXPECT_EQ((Verdict{.checks = {check_with(light), check_with(heavy), check_with(light)}}.status()), heavy);
      EXPECT_EQ((Verdict{.runs = {run_with(heavy)}, .checks = {check_with(light)}}.status()), heavy);
      EXPECT_EQ((Verdict{.runs = {run_with(light)}, .checks = {check_with(heavy)}}.status()), heavy);
    }
  }
}

TEST(Verdict, NeverAgreesOnNothing) {
  EXPECT_EQ(Verdict{}.status(), Status::kInconclusive);
  EXPECT_EQ((Verdict{.runs_finished = 3, .runs_total = 3}.status()), Status::kInconclusive)
      << "runs without a check prove nothing";
}

TEST(Verdict, JudgesEachScenarioByItsOwnParts) {
  const Verdict verdict{.runs = {run_with(Status::kUnsupported, "one/a/0")},
                        .checks = {check_with(Status::kAgree, "one"), check_with(Status::kDivergence, "two"),
                                   check_with(Status::kAgree, "three")}};
  EXPECT_EQ(verdict.status_of("one"), Status::kUnsupported);
  EXPECT_EQ(verdict.status_of("two"), Status::kDivergence);
  EXPECT_EQ(verdict.status_of("three"), Status::kAgree);
  EXPECT_EQ(verdict.status_of("on"), Status::kInconclusive) << "a prefix of a name is not the name";
  EXPECT_EQ(verdict.status_of("four"), Status::kInconclusive) << "nothing of it was judged";
}

TEST(CheckResult, CombinesToTheWorst) {
  using checks::CheckResult;
  using S = CheckResult::Status;
  for (const auto& [first, second, worst] : {std::tuple{S::kAgree, S::kBaseline, S::kBaseline},
                                             {S::kBaseline, S::kInconclusive, S::kInconclusive},
                                             {S::kDivergence, S::kInconclusive, S::kDivergence},
                                             {S::kAgree, S::kAgree, S::kAgree}}) {
    for (const auto& [a, b] : {std::pair{first, second}, {second, first}}) {
      CheckResult total{.status = a, .compared = 2};
      checks::combine(total, {.status = b, .compared = 3});
      EXPECT_EQ(total.status, worst);
      EXPECT_EQ(total.compared, 5U);
    }
  }
  CheckResult total{.status = S::kDivergence, .why = "first"};
  checks::combine(total, {.status = S::kDivergence, .why = "second"});
  EXPECT_EQ(total.why, "first") << "the first of equals stays";
}

}  // namespace
}  // namespace lockstep::judge
