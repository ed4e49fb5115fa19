// A mistake in a training turns the check that is meant for it red, with step, channel, tensor and rank; its clean
// counterpart is green.
#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class FaultEndToEnd : public EndToEnd {
 protected:
  static Json with_checks(const std::vector<Json>& checks, const Json& changes = Json::object()) {
    return scenario(merged({{{"checks", checks}}, changes}));
  }

  /// Runs the scenario without the fault, which must be green, and with it, which must end with exit code 1.
  Result run_with(Json scenario, const Json& fault) {
    expect_green(run(scenario));
    scenario["train"]["faults"] = {fault};
    Result red = run(scenario);
    EXPECT_EQ(red.exit_code(), 1) << red.said();
    EXPECT_EQ(red.json.at("status"), "divergence");
    return red;
  }
};

TEST_F(FaultEndToEnd, LearningRateOneTenThousandthLarger) {
  for (const auto& [step, rank] : {std::pair{0, -1}, std::pair{2, -1}, std::pair{1, 1}}) {
    SCOPED_TRACE("step " + std::to_string(step) + ", rank " + std::to_string(rank));
    const Result red =
        run_with(with_checks({check("ledger")}), fault("learning_rate_factor", step, rank, {{"factor", 1.0001}}));
    expect_divergence(red.check("ledger"), {step, "ledger", "learning_rate", std::max(rank, 0)});
    expect_says(red.check("ledger").at("first_divergence").at("expected"), {"0.1"});
    expect_says(red.check("ledger").at("first_divergence").at("actual"), {"0.10001"});
  }
}

TEST_F(FaultEndToEnd, LearningRateOfOneRank) {
  const Result red = run_with(with_checks({check("ranks_agree", {{"on", {"weight"}}})}, {{"world_size", 3}}),
                              fault("learning_rate_factor", 2, 2, {{"factor", 1.0001}}));
  expect_divergence(red.check("ranks_agree"), {2, "weight", "fc1.weight", 2});
}

TEST_F(FaultEndToEnd, GradientsSummedInsteadOfAveraged) {
  for (const auto& [relation, world_size] :
       {std::pair{"rounding", 2}, std::pair{"equal", 3}, std::pair{"rounding", 4}}) {
    SCOPED_TRACE(std::string(relation) + " on " + std::to_string(world_size) + " ranks");
    Json both =
        with_checks({check(relation, {{"variants", {"mean", "other"}}, {"on", {"gradient"}}})},
                    {{"world_size", world_size}, {"variants", {{"mean", Json::object()}, {"other", Json::object()}}}});
    expect_green(run(both));
    both["variants"]["other"] = at("train.ddp.average", false);
    const Result red = run(both);
    EXPECT_EQ(red.exit_code(), 1) << red.said();
    const Json check = red.check(relation);
    expect_divergence(check, {0, "gradient", "fc1.weight", 0});
    const std::string factor = std::to_string(world_size);
    expect_says(check.at("first_divergence").at("relation"), {"right = " + factor + " x left"});
    expect_says(check.at("explanation"), {"a factor of " + factor + " may be a sum"});
  }
}

TEST_F(FaultEndToEnd, SumOnSeveralRanksAgainstOneRank) {
  Json both = with_checks({check("rounding", {{"variants", {"w1", "w4"}}, {"on", {"gradient"}}})},
                          {{"variants", {{"w1", {{"world_size", 1}}}, {"w4", {{"world_size", 4}}}}}});
  expect_green(run(both));
  merge_json(both["variants"]["w4"], at("train.ddp.average", false));
  const Result red = run(both);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_divergence(red.check("rounding"), {0, "gradient", "fc1.weight", 0});
  expect_says(red.check("rounding").at("first_divergence").at("relation"), {"4 x left"});
}

TEST_F(FaultEndToEnd, OneRanksGradientNotReduced) {
  for (const auto& [step, rank, parameter] :
       {std::tuple{0, 1, "fc1.weight"}, std::tuple{2, 2, "fc2.bias"}, std::tuple{3, 1, "fc2.weight"}}) {
    SCOPED_TRACE(std::string(parameter) + " on rank " + std::to_string(rank));
    const Result red =
        run_with(with_checks({check("ranks_agree", {{"on", {"gradient", "weight"}}})}, {{"world_size", 3}}),
                 fault("gradient_not_reduced", step, rank, {{"parameter", parameter}}));
    expect_divergence(red.check("ranks_agree"), {step, "gradient", parameter, rank});
  }
}

TEST_F(FaultEndToEnd, OneRanksGradientNotReducedInAConvolution) {
  Json training = with_checks({check("ranks_agree")});
  training["train"]["model"] = {{"kind", "lenet"}};
  const Result red = run_with(training, fault("gradient_not_reduced", 1, 1, {{"parameter", "conv2.weight"}}));
  expect_divergence(red.check("ranks_agree"), {1, "gradient", "conv2.weight", 1});
}

/// Ranks are held against rank 0, but where all others agree against it, it is the one to name.
TEST_F(FaultEndToEnd, RankZeroIsTheOddOne) {
  const Result red = run_with(with_checks({check("ranks_agree", {{"on", {"weight"}}})}, {{"world_size", 3}}),
                              fault("flip_weight_bit", 1, 0, {{"parameter", "fc2.bias"}}));
  expect_divergence(red.check("ranks_agree"), {1, "weight", "fc2.bias", 0});
  EXPECT_EQ(red.check("ranks_agree").at("first_divergence").at("left"), "main/0 rank 1");
}

/// Two ranks disagree: the one whose gradient is still its local one was not reduced.
TEST_F(FaultEndToEnd, RankZerosGradientNotReduced) {
  const Result red = run_with(with_checks({check("ranks_agree")}, {{"world_size", 2}}),
                              fault("gradient_not_reduced", 1, 0, {{"parameter", "fc1.weight"}}));
  expect_divergence(red.check("ranks_agree"), {1, "gradient", "fc1.weight", 0});
}

TEST_F(FaultEndToEnd, FlippedWeightBit) {
  const struct {
    int step, rank, element, bit;
    const char* parameter;
  } cases[] = {{0, 1, 0, 0, "fc1.weight"}, {1, 3, 5, 0, "fc2.bias"}, {3, 2, 17, 31, "fc2.weight"}};
  for (const auto& flip : cases) {
    SCOPED_TRACE(std::string(flip.parameter) + " on rank " + std::to_string(flip.rank));
    const Result red = run_with(with_checks({check("ranks_agree")}, {{"world_size", 4}}),
                                fault("flip_weight_bit", flip.step, flip.rank,
                                      {{"parameter", flip.parameter}, {"element", flip.element}, {"bit", flip.bit}}));
    expect_divergence(red.check("ranks_agree"), {flip.step, "weight", flip.parameter, flip.rank});
  }
}

TEST_F(FaultEndToEnd, TwoSamplesSwappedAgainstTheOtherVariant) {
  Json both = with_checks({check("equal", {{"variants", {"clean", "other"}}})},
                          {{"variants", {{"clean", Json::object()}, {"other", Json::object()}}}});
  expect_green(run(both));
  both["variants"]["other"] = at("train.faults", Json::array({fault("swap_samples", 2, 1)}));
  const Result red = run(both);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_divergence(red.check("equal"), {2, "samples", "ids", 1});
}

/// Known before the first step, so that the worker's refusal is believed.
TEST_F(FaultEndToEnd, SamplesOutsideTheBatchAreRefused) {
  const Result refused =
      run(scenario(at("train.faults", Json::array({fault("swap_samples", 2, 1, {{"first", 6}, {"second", 0}})}))));
  EXPECT_EQ(refused.exit_code(), 2) << refused.said();
  expect_says(refused.said(), {"before its first step", "swap_samples names a place outside the batch", "less than 6"});
}

TEST_F(FaultEndToEnd, SetEpochForgotten) {
  Json training = with_checks({check("covers")}, {{"train", {{"batch", {{"global", 12}}}, {"steps", 9}}}});
  expect_green(run(training));
  merge_json(training, at("train.sampler", {{"kind", "distributed"}, {"set_epoch", false}}));
  const Result red = run(training);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_divergence(red.check("covers"), {4, "samples", "ids", 0});
  expect_says(red.check("covers").at("explanation"), {"set_epoch"});
}

TEST_F(FaultEndToEnd, ASamplerWithoutRanks) {
  Json training = with_checks({check("ranks_differ", {{"on", {"samples", "gradient.local"}}})});
  expect_green(run(training));
  merge_json(training, at("train.sampler", {{"kind", "none"}}));
  const Result red = run(training);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.check("ranks_differ").at("first_divergence").at("channel"), "samples");
  EXPECT_EQ(red.check("ranks_differ").at("first_divergence").at("rank"), 1);
}

TEST_F(FaultEndToEnd, AChangeThatHasNoEffect) {
  Json both = with_checks({check("differs", {{"variants", {"a", "b"}}})},
                          {{"variants", {{"a", Json::object()}, {"b", at("train.optimizer.lr", 0.2)}}}});
  expect_green(run(both));
  both["variants"]["b"] = Json::object();
  const Result red = run(both);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.check("differs").at("status"), "divergence");
  expect_says(red.check("differs").at("why"), {"but must differ"});
}

// The last step is recorded, whatever steps are left out.
TEST_F(FaultEndToEnd, AMistakeInTheLastUpdateOfASparseTrace) {
  const Json last = {{"train", {{"faults", {fault("flip_weight_bit", 3, 1)}}}}};
  const Result red =
      run(with_checks({check("equal", {{"variants", {"a", "b"}}})},
                      {{"train", {{"record", {{"every", 2}}}}}, {"variants", {{"a", Json::object()}, {"b", last}}}}));
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.check("equal").at("first_divergence").at("step"), 3) << "of four steps";
}

TEST_F(FaultEndToEnd, AnExpectedFailureThatDoesNotHappenOrHappensElsewhere) {
  const auto expecting = [](std::int64_t step) {
    return check(
        "ranks_agree",
        {{"on", {"weight"}},
         {"expect", {{"status", "divergence"}, {"reason", "planted"}, {"at", {{"step", step}, {"rank", 1}}}}}});
  };
  Json training = with_checks({expecting(2)});
  const Result clean = run(training);
  EXPECT_EQ(clean.exit_code(), 1) << clean.said();
  expect_says(clean.check("ranks_agree").at("why"), {"was expected to fail", "planted"});
  training["train"]["faults"] = {fault("flip_weight_bit", 2, 1)};
  EXPECT_EQ(run(training).exit_code(), 0);
  training["checks"] = {expecting(1)};
  const Result elsewhere = run(training);
  EXPECT_EQ(elsewhere.exit_code(), 1) << elsewhere.said();
  expect_says(elsewhere.check("ranks_agree").at("why"), {"not as expected"});
}

TEST_F(FaultEndToEnd, ASwapOutsideAShortBatchIsRefused) {
  Json training = scenario({{"train",
                             {{"data", {{"size", 22}}},
                              {"steps", 4},
                              {"batch", {{"accumulation", 2}, {"at_epoch_end", "update"}}},
                              {"faults", {fault("swap_samples", 3, 1, {{"first", 0}, {"second", 3}})}}}}});
  training["train"]["batch"].erase("global");
  training["train"]["batch"]["per_rank"] = 8;
  const Result refused = run(training);
  EXPECT_EQ(refused.exit_code(), 2) << refused.said();
  expect_says(refused.said(), {"outside the batch", "less than 3"});
  training["train"]["faults"][0]["step"] = 2;  // whole batches
  EXPECT_EQ(run(training).exit_code(), 0);
}

}  // namespace
}  // namespace lockstep::test
