// NaN that equals NaN is no agreement, in trainings that really ran.
#include <map>

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class NotFiniteEndToEnd : public EndToEnd {};

/// At a rate of 1e30 losses and gradients are NaN from step 1 on, so that a doubled gradient at step 4 is not seen.
TEST_F(NotFiniteEndToEnd, NaNOnBothSidesIsInconclusiveFromThereOn) {
  const Json overflowing =
      scenario(merged({{{"repeats", 2},
                        {"variants",
                         {{"plain", Json::object()},
                          {"doubled", at("train.faults", {fault("gradient_factor", 4, -1, {{"factor", 2}})})}}},
                        {"checks",
                         {check("equal", {{"variants", {"plain", "doubled"}}}), check("repeatable"),
                          check("ranks_agree"), check("ledger"), check("reduction")}}},
                       at("train.optimizer", {{"lr", 1e30}, {"momentum", 0}}),
                       at("train.steps", 6)}));
  const Result result = run(overflowing);
  EXPECT_EQ(result.exit_code(), 4) << result.said();
  EXPECT_EQ(result.json.at("status"), "inconclusive");
  const std::map<std::string, std::string> places = {{"equal", "step 1, loss local, rank 0"},
                                                     {"repeatable", "step 1, loss local, rank 0"},
                                                     {"ranks_agree", "step 1, gradient fc1.weight, rank 1"},
                                                     {"ledger", "step 1, loss local, rank 0"},
                                                     {"reduction", "step 1, gradient fc1.weight, rank 0"}};
  for (const auto& [relation, place] : places) {
    SCOPED_TRACE(relation);
    const Json report = result.check(relation);
    EXPECT_EQ(report.at("status"), "inconclusive");
    expect_says(report.at("why"), {"NaN or infinity hides every difference from there on, first at " + place});
    expect_says(report.at("next"), {"lower the learning rate"});
  }
}

}  // namespace
}  // namespace lockstep::test
