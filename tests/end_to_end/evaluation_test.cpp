// Metrics on held-out samples: whose count, what they are divided by, and who holds them.
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/trace/line.h"
#include "harness/trace/reader.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class EvaluationEndToEnd : public EndToEnd {
 protected:
  /// Weights that stay as they are, so that the metrics of all world sizes are those of one model.
  static Json evaluating(const Json& evaluation, const Json& checks) {
    Json held_out = {{"samples", 10}, {"every", 2}, {"batch", 4}};
    held_out.merge_patch(evaluation);
    return scenario({{"train", {{"optimizer", {{"lr", 0}}}, {"evaluation", held_out}, {"data", {{"size", 58}}}}},
                     {"variants", {{"w1", {{"world_size", 1}}}, {"w3", {{"world_size", 3}}}}},
                     {"checks", checks}});
  }
};

TEST_F(EvaluationEndToEnd, WorldSizesAgreeWhereEverySampleCountsOnce) {
  const Json checks = Json::array({check("ledger"), check("ranks_agree", {{"on", {"metric"}}})});
  for (const char* shares : {"trimmed", "leftovers", "all"})
    expect_green(run(evaluating({{"shares", shares}}, checks)));
}

/// A rank that has no share evaluates what nobody has.
TEST_F(EvaluationEndToEnd, LeftoversAloneAreEvaluatedByAllRanks) {
  expect_green(run(evaluating({{"shares", "leftovers"}, {"samples", 2}}, Json::array({check("laws")}))));
}

/// Cut out of all steps and sealed again, so that the law has nothing to judge.
TEST_F(EvaluationEndToEnd, WhatItsLawJudgesCannotBeCutAway) {
  const Json training = evaluating(Json::object(), Json::array({check("finishes")}));
  const Result whole = run(training);
  const auto judged = [&] { return run_lockstep({"judge", write(training), "--traces", whole.out}); };
  EXPECT_EQ(judged().exit_code, 0);
  const std::filesystem::path file = whole.out / "tiny/w1/0/rank0.jsonl";
  const trace::Trace trace = trace::read_trace(file);
  for (const std::string name : {"seen.evaluated ids", "seen.evaluated loss"}) {
    std::string text = trace::line_of_header(trace.header);
    for (trace::Step step : trace.steps) {
      std::erase_if(step.records, [&](const trace::Record& record) { return record.name == name; });
      text += trace::line_of(step);
    }
    replace_file(file, text + trace::line_of_end(trace.steps.size() + 1, sha256(text)));
    const Outcome cut = judged();
    EXPECT_EQ(cut.exit_code, 4) << cut.out;
    expect_says(cut.out, {"lacks ledger " + name});
  }
}

/// Of trainings whose weights round otherwise; an accuracy may be that of other predictions then.
TEST_F(EvaluationEndToEnd, MetricsAreEqualUpToRounding) {
  Json training = evaluating({{"every", 1}}, Json::array({check("rounding", {{"variants", {"w1", "w3"}}})}));
  training["train"]["optimizer"]["lr"] = 0.1;
  for (const char* shares : {"all", "leftovers", "trimmed"}) {
    training["train"]["evaluation"]["shares"] = shares;
    const Result green = run(training);
    expect_green(green);
    EXPECT_EQ(green.process.err.find("again"), std::string::npos) << green.process.err;
  }
  const auto expect_red = [&](const Json& evaluation, std::int64_t step, const std::string& tensor) {
    Json wrong = training;
    wrong["variants"]["w3"]["train"]["evaluation"] = evaluation;
    const Result red = run(wrong);
    expect_divergence(red.check("rounding"), {step, "metric", tensor, 0}, "semantic");
    return red;
  };
  expect_says(expect_red({{"shares", "padded"}}, 0, "loss").check("rounding").at("cause"), {"data.pad_duplicates"});
  expect_red({{"reduce", "none"}}, 0, "loss");
  expect_red({{"average", "ranks"}}, 0, "loss");
}

/// Samples one by one: on two of three ranks the last batch is nothing but padding.
TEST_F(EvaluationEndToEnd, ABatchOfPaddingAloneSaysNothing) {
  const Result result = run(evaluating({{"shares", "trimmed"}, {"batch", 1}}, Json::array({check("ledger")})));
  expect_green(result);
  const auto loss = [&](const std::string& variant) {
    const trace::Trace trace = trace::read_trace(result.out / "tiny" / variant / "0/rank0.jsonl");
    return trace.steps.at(2).find(trace::Channel::kMetric, "loss")->number.value();
  };
  EXPECT_NEAR(loss("w3"), loss("w1"), 1e-6);
}

TEST_F(EvaluationEndToEnd, PaddingCounts) {
  const Result red = run(evaluating({{"shares", "padded"}}, Json::array({check("ledger")})));
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_divergence(red.check("ledger"), {1, "metric", "counted", 0});
  expect_says(red.check("ledger").at("first_divergence").at("actual"), {"12"});
}

TEST_F(EvaluationEndToEnd, AMetricThatNobodyReducesIsEachRanksOwn) {
  const Json agree = check("ranks_agree", {{"variants", {"w3"}}, {"on", {"metric"}}});
  const Result red = run(evaluating({{"reduce", "none"}}, Json::array({agree, check("ledger")})));
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.check("ranks_agree").at("first_divergence").at("channel"), "metric") << red.said();
  expect_divergence(red.check("ledger"), {1, "metric", "counted", 0});
}

TEST_F(EvaluationEndToEnd, OnlyTheRootHoldsWhatIsReducedToIt) {
  const Result red = run(evaluating({{"reduce", "root"}},
                                    Json::array({check("ranks_agree", {{"variants", {"w3"}}, {"on", {"metric"}}})})));
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.check("ranks_agree").at("first_divergence").at("channel"), "metric") << red.said();
}

TEST_F(EvaluationEndToEnd, ASumOverTheRanksDividedByTheDevicesOfANode) {
  Json training = evaluating({{"average", "ranks"}}, Json::array({check("ledger", {{"variants", {"w3"}}})}));
  expect_green(run(training));
  training["variants"]["w3"]["train"]["faults"] = {{{"kind", "metric_by_device_count"}, {"devices", 2}}};
  const Result red = run(training);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_divergence(red.check("ledger"), {0, "loss", "reduced", 0});
  expect_says(red.check("ledger").at("explanation"), {"not the mean of the ranks' losses"});
}

TEST_F(EvaluationEndToEnd, HeldOutSamplesAreNotTrainedOn) {
  Json training = evaluating(Json::object(), Json::array({check("covers")}));
  training["train"]["steps"] = 9;
  expect_green(run(training));
  training["train"]["evaluation"]["samples"] = 58;
  const Result refused = run(training);
  EXPECT_EQ(refused.exit_code(), 2) << refused.said();
  expect_says(refused.said(), {"no samples to train on", "train.evaluation.samples", "58"});
}

TEST_F(EvaluationEndToEnd, ClippingBeforeTheReductionIsAnotherTraining) {
  Json training = scenario({{"train", {{"gradient", {{"clip_norm", 0.1}}}}},
                            {"variants",
                             {{"after", Json::object()},
                              {"again", Json::object()},
                              {"before", at("train.faults", {{{"kind", "clip_before_reduction"}}})}}},
                            {"checks", Json::array({check("equal", {{"variants", {"after", "again"}}}),
                                                    check("differs", {{"variants", {"after", "before"}}})})}});
  expect_green(run(training));
}

/// On two ranks halving commutes with adding: where nothing is clipped, the fault computes the same bits.
TEST_F(EvaluationEndToEnd, ClippingBeforeTheReductionClipsAndReduces) {
  const Json fault = {{{"kind", "clip_before_reduction"}}};
  const auto clipping = [&](double norm, const Json& faults) {
    return Json{{"train", {{"gradient", {{"clip_norm", norm}}}, {"faults", faults}}}};
  };
  expect_green(run(scenario(
      {{"variants",
        {{"loose", clipping(1e9, Json::array())},
         {"loose-before", clipping(1e9, fault)},
         {"tight-before", clipping(0.1, fault)}}},
       {"checks",
        Json::array({check("equal", {{"variants", {"loose", "loose-before"}}, {"on", {"gradient.local", "weight"}}}),
                     check("differs", {{"variants", {"loose-before", "tight-before"}}}), check("ranks_agree")})}})));
}

TEST_F(EvaluationEndToEnd, ARankThatEvaluatesNothingHasNoMean) {
  const Json of_two = {{"samples", 2}, {"average", "ranks"}};
  const Result refused = run(evaluating(of_two, Json::array({check("ledger", {{"variants", {"w3"}}})})));
  EXPECT_EQ(refused.exit_code(), 2) << refused.said();
  expect_says(refused.said(), {"has no mean", "train.evaluation.samples", "at least 3"});
  // Nor has one that keeps what is its own.
  const Json kept = {{"samples", 2}, {"reduce", "none"}};
  const Result own = run(evaluating(kept, Json::array({check("ledger", {{"variants", {"w3"}}})})));
  EXPECT_EQ(own.exit_code(), 2) << own.said();
  expect_says(own.said(), {"has no mean", "train.evaluation.samples", "at least 3"});
  // Where the last round is filled up, each has one.
  const Json filled = {{"samples", 2}, {"average", "ranks"}, {"shares", "padded"}};
  expect_green(run(evaluating(filled, Json::array({check("ranks_agree", {{"variants", {"w3"}}})}))));
}

TEST_F(EvaluationEndToEnd, AModelThatNobodyWrappedDriftsApart) {
  Json training = scenario({{"train", {{"ddp", {{"wrap", false}}}}}, {"checks", Json::array({check("ranks_agree")})}});
  const Result red = run(training);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_divergence(red.check("ranks_agree"), {0, "gradient", "fc1.weight", 1});
}

}  // namespace
}  // namespace lockstep::test
