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

/// The rate is 1e30 times larger from step 4 on, so that both sides end as NaN, in float64 too. The mistake at step 2
/// comes before.
TEST_F(NotFiniteEndToEnd, NaNThatComesLaterDoesNotHideAMistake) {
  const auto judged = [&](double factor, bool float32_only) {
    return run(scenario(merged(
        {{{"variants",
           {{"plain", Json::object()},
            {"scaled", at("train.faults",
                          {fault("gradient_factor", 2, -1, {{"factor", factor}, {"float32_only", float32_only}})})}}},
          {"checks", {check("equal", {{"variants", {"plain", "scaled"}}})}}},
         at("train.schedule", {{"kind", "multistep"}, {"milestones", {4}}, {"gamma", 1e30}}),
         at("train.steps", 16)})));
  };
  const Result mistake = judged(1.37, false);
  ASSERT_EQ(mistake.exit_code(), 1) << mistake.said();
  const Json red = mistake.check("equal");
  EXPECT_EQ(red.at("decided_by"), "stays_in_float64") << mistake.said();
  EXPECT_EQ(red.at("class"), "semantic");
  const Result last_bit = judged(1.0000001192092896, true);
  EXPECT_NE(last_bit.check("equal").at("decided_by"), "stays_in_float64") << last_bit.said();
}

/// A check up to rounding, between world sizes. The factor is too small for its bound; float64 sees it.
TEST_F(NotFiniteEndToEnd, NaNThatComesLaterDoesNotHideWhatFloat64Saw) {
  const auto judged = [&](double factor) {
    const Json faults = Json::array({fault("weights_decayed", 6, -1, {{"factor", factor}, {"parameter", "fc1.bias"}})});
    return run(scenario(merged(
        {{{"variants", {{"one", {{"world_size", 1}}}, {"two", {{"world_size", 2}, {"train", {{"faults", faults}}}}}}},
          {"checks", {check("rounding", {{"variants", {"one", "two"}}})}}},
         at("train.schedule", {{"kind", "multistep"}, {"milestones", {12}}, {"gamma", 1e30}}),
         at("train.steps", 18)})));
  };
  const Result mistake = judged(1 - 0x1p-16);
  EXPECT_EQ(mistake.exit_code(), 1) << mistake.said();
  EXPECT_EQ(mistake.check("rounding").at("class"), "semantic") << mistake.said();
  const Result clean = judged(1);
  EXPECT_EQ(clean.exit_code(), 4) << clean.said();
  EXPECT_NE(clean.check("rounding").at("class"), "rounding") << clean.said();
}

}  // namespace
}  // namespace lockstep::test
