// lockstep blame, and the close look that a finding's control runs take.
#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class BlameEndToEnd : public EndToEnd {
 protected:
  /// The scenario with variants "one" and "other".
  static Json two(const Json& one, const Json& other, const Json& changes = Json::object()) {
    return scenario(merged({{{"variants", {{"one", one}, {"other", other}}},
                             {"checks", {check("equal", {{"variants", {"one", "other"}}})}}},
                            changes}));
  }

  Result blame(const Json& scenario, std::vector<std::string> more = {}) {
    more.insert(more.begin(), write(scenario).string());
    return judged("blame", more);
  }

  static std::string outcome(const Result& result, const std::string& control) {
    for (const Json& one : result.json.at("controls")) {
      if (one.at("control") == control) return one.at("outcome").get<std::string>();
    }
    return "not tried";
  }

  static std::vector<std::string> paths(const Json& changes) {
    std::vector<std::string> paths;
    for (const Json& change : changes) paths.push_back(change.at("path").get<std::string>());
    return paths;
  }
};

const Json kNone = Json::object();

TEST_F(BlameEndToEnd, TheElementAndTheOperatorAreNamed) {
  const Json flipped = {{"train", {{"faults", {fault("flip_weight_bit", 2, 1, {{"element", 5}, {"bit", 20}})}}}}};
  const Result red = run(two(kNone, flipped));
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  const Json at = red.check("equal").at("first_divergence");
  const Json& element = at.at("element");
  EXPECT_EQ(element.at("index"), Json({0, 5})) << at;
  EXPECT_EQ(element.at("unequal"), 1);
  EXPECT_EQ(element.at("ulps"), 1 << 20);
  EXPECT_EQ(element.at("left").get<double>() * element.at("ratio").get<double>(), element.at("right").get<double>());
  EXPECT_TRUE(at.at("operator").is_null()) << at;  // no operator did it
}

TEST_F(BlameEndToEnd, AnOperatorThatIsFedAnotherNumberIsNamed) {
  const Result red = run(two(kNone, {{"train", {{"optimizer", {{"lr", 0.05}}}}}},
                             {{"checks", {check("equal", {{"variants", {"one", "other"}}, {"on", {"weight"}}})}}}));
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  const Json found = red.check("equal").at("first_divergence").at("operator");
  EXPECT_EQ(found.at("says"), "is_fed") << found;
  EXPECT_EQ(found.at("phase"), "optimizer");
  expect_says(found.at("text").get<std::string>(), {"0.1 on the left", "0.05 on the right"});
}

TEST_F(BlameEndToEnd, AnOperatorThatOneSideAddsIsNamed) {
  const Json larger = {{"train", {{"faults", {fault("gradient_factor", 1, 0, {{"factor", 1.5}})}}}}};
  const Result red = run(two(kNone, larger));
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  const Json at = red.check("equal").at("first_divergence");
  EXPECT_EQ(at.at("operator").at("says"), "is_called") << at;
  expect_says(at.at("operator").at("name").get<std::string>(), {"mul"});
}

TEST_F(BlameEndToEnd, OneFactorInAllElementsIsSeen) {
  const Json summed = {{"train", {{"ddp", {{"average", false}}}}}};
  const Result red = run(two(kNone, summed));
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.check("equal").at("first_divergence").at("element").at("factor"), 2);
}

TEST_F(BlameEndToEnd, OnlyTheChangeThatMattersIsBlamed) {
  const Json other = {{"train", {{"optimizer", {{"lr", 0.05}}}, {"ddp", {{"find_unused_parameters", true}}}}},
                      {"launch", {{"arrival_delay_ms", {30}}}}};
  const Result red = blame(two(kNone, other), {"one", "other", "--vary", "threads,place"});
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.json.at("changes").size(), 3U);
  EXPECT_EQ(paths(red.json.at("smallest_change")), (std::vector<std::string>{"train.optimizer.lr"}));
  EXPECT_EQ(outcome(red, "threads"), "stays");
  EXPECT_EQ(outcome(red, "place"), "stays");
  EXPECT_EQ(outcome(red, "isa"), "not tried");
  expect_says(red.process.err, {"the trainings unchanged", "control 1 of 2: threads", "changes of the variant"});
}

TEST_F(BlameEndToEnd, ChangesThatDoNothingAreNotBlamed) {
  const Json other = {{"world_size", 1},
                      {"train", {{"batch", {{"global", 24}, {"accumulation", 2}}}, {"optimizer", {{"lr", 0.1}}}}}};
  const Result green = blame(two({{"world_size", 1}}, {{"world_size", 1}, {"launch", {{"arrival_delay_ms", {20}}}}}));
  EXPECT_EQ(green.exit_code(), 0) << green.said();
  EXPECT_TRUE(green.json.at("controls").empty());
  const Result red = blame(two({{"world_size", 1}}, other), {"--vary", "threads"});
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(paths(red.json.at("smallest_change")), (std::vector<std::string>{"train.batch.global"}));
}

TEST_F(BlameEndToEnd, BucketsAreBlamedWhereOneOrderOfAddingMakesTheDifferenceVanish) {
  const Json base = {{"world_size", 3}, {"train", {{"model", {{"kind", "mlp"}, {"hidden", {32, 32}}}}}}};
  const Json small = {{"train", {{"ddp", {{"bucket_mb", 0.002}}}}}};
  const Result red = blame(two(kNone, small, base), {"--vary", "-float64"});
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(outcome(red, "buckets"), "vanishes");
  EXPECT_EQ(outcome(red, "order"), "vanishes");
  EXPECT_EQ(outcome(red, "two_ranks"), "vanishes");
  EXPECT_EQ(outcome(red, "one_rank"), "vanishes");
  EXPECT_EQ(outcome(red, "exact"), "vanishes");
  EXPECT_EQ(outcome(red, "threads"), "stays");
  EXPECT_EQ(outcome(red, "fill"), "stays");
  EXPECT_EQ(paths(red.json.at("smallest_change")), (std::vector<std::string>{"train.ddp.bucket_mb"}));
}

// The finding is the mistake; what a control does is seen at the first bit.
TEST_F(BlameEndToEnd, ControlsAreHeldAgainstTheFirstDifferenceOfAny) {
  const Json base = {{"world_size", 3}, {"train", {{"model", {{"kind", "mlp"}, {"hidden", {32, 32}}}}}}};
  const Json other = {
      {"train", {{"ddp", {{"bucket_mb", 0.002}}}, {"faults", {fault("gradient_factor", 2, -1, {{"factor", 1.5}})}}}}};
  const Result red = blame(two(kNone, other, base), {"--vary", "threads,fill,order"});
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.check("equal").at("first_divergence").at("step"), 2) << red.said();
  EXPECT_EQ(outcome(red, "threads"), "stays");
  EXPECT_EQ(outcome(red, "fill"), "stays");
  EXPECT_EQ(outcome(red, "order"), "moves");
}

TEST_F(BlameEndToEnd, AStepFromOneStateTellsANewDifferenceFromAnOldOne) {
  const Json late = {{"train", {{"faults", {fault("gradient_factor", 2, -1, {{"factor", 1.5}})}}}}};
  const Result now = blame(two(kNone, late), {"--vary", "same_state"});
  EXPECT_EQ(outcome(now, "same_state"), "stays") << now.said();
  // Of four ranks against one the bits part in the first step, which has one state anyway.
  const Result old = blame(two({{"world_size", 1}}, {{"world_size", 4}}), {"--that", "equal", "--vary", "same_state"});
  EXPECT_EQ(outcome(old, "same_state"), "does not apply") << old.said();
  const Result rate = blame(two(kNone, at("train.optimizer.lr", 0.05)), {"--that", "rounding", "--vary", "same_state"});
  EXPECT_EQ(rate.exit_code(), 1) << rate.said();
}

TEST_F(BlameEndToEnd, AGoldenIsASide) {
  const Json golden = scenario({{"checks", {check("golden")}}});
  accept(golden);
  const Result green = blame(golden, {"main", "golden"});
  EXPECT_EQ(green.exit_code(), 0) << green.said();
  const Result stale =
      blame(scenario({{"checks", {check("golden")}}, {"train", {{"optimizer", {{"lr", 0.05}}}}}}), {"main", "golden"});
  EXPECT_EQ(stale.exit_code(), 1) << stale.said();
  EXPECT_EQ(outcome(stale, "threads"), "stays");
  EXPECT_EQ(outcome(stale, "one_rank"), "does not apply");
  EXPECT_EQ(outcome(stale, "exact"), "does not apply");
}

TEST_F(BlameEndToEnd, BadQuestionsAreRefused) {
  const Json any = two(kNone, kNone);
  const auto refused = [&](const std::vector<std::string>& more, const std::vector<std::string>& says) {
    const Result result = blame(any, more);
    EXPECT_EQ(result.exit_code(), 2) << result.said();
    expect_says(result.process.err, says);
  };
  refused({"one", "othr"}, {"unknown variant 'othr'", "did you mean 'other'"});
  refused({"one"}, {"two trainings must be named"});
  refused({"one", "one"}, {"both sides"});
  refused({"one", "other", "--vary", "treads"}, {"unknown control 'treads'", "did you mean 'threads'"});
  refused({"one", "other", "--that", "ledger"}, {"--that"});
}

TEST_F(BlameEndToEnd, ExactTrainingsAreEqualAtEveryWorldSize) {
  Json variants;
  for (const int ranks : {1, 2, 3, 4}) variants["w" + std::to_string(ranks)] = {{"world_size", ranks}};
  Json exact = scenario(
      {{"train", {{"exact", true}, {"batch", {{"global", 12}}}}},
       {"variants", variants},
       {"checks",
        {check("rounding", {{"variants", {"w1", "w2", "w3", "w4"}}}), check("ranks_agree"), check("reduction")}}});
  const Result green = run(exact);
  expect_green(green);
  // In every bit: the gradients' records of one and of four ranks are equal.
  const std::filesystem::path runs = green.out / green.json.at("scenarios").at(0).at("name").get<std::string>();
  const Outcome same = run_lockstep(
      {"diff", (runs / "w1/0").string(), (runs / "w4/0").string(), "--channel", "gradient", "--channel", "weight"});
  EXPECT_EQ(same.exit_code, 0) << same.out << same.err;
  exact["variants"]["w3"]["train"]["faults"] = {fault("gradient_factor", 1, -1, {{"factor", 1 + 0x1p-20}})};
  EXPECT_EQ(run(exact).exit_code(), 1);
  for (const Json& refused : {at("train.gradient.loss_scale", 8), at("train.autocast", "bf16")}) {
    const Result result =
        run(scenario(merged({{{"train", {{"exact", true}}}, {"checks", {check("ranks_agree")}}}, refused})));
    EXPECT_EQ(result.exit_code(), 2) << result.said();
    expect_says(result.process.err, {"train.exact"});
  }
}

TEST_F(BlameEndToEnd, ExactTrainingsWithDropoutAreEqualInAnyOrder) {
  const Json base = {{"world_size", 3},
                     {"train",
                      {{"exact", true},
                       {"model", {{"kind", "mlp"}, {"hidden", {32, 32}}, {"dropout", 0.3}}},
                       {"record", {{"channels", {"loss", "gradient", "weight"}}}}}}};
  const Json small = {{"train", {{"ddp", {{"bucket_mb", 0.002}}}}}};
  const Json ordered = {{"train", {{"ddp", {{"reduction", "rank_order"}}}}}};
  const std::vector<std::string> names{"main", "small", "ordered"};
  expect_green(run(scenario(merged({{{"variants", {{"main", kNone}, {"small", small}, {"ordered", ordered}}},
                                     {"checks", {check("equal", {{"variants", names}})}}},
                                    base}))));
}

TEST_F(BlameEndToEnd, WhatCannotBeLookedAtIsRefused) {
  const auto refused = [&](const Json& capture, const std::vector<std::string>& says) {
    const Result result = run(
        scenario({{"train", {{"record", {{"channels", {"loss", "weight"}}, {"every", 2}, {"capture", {capture}}}}}}}));
    EXPECT_EQ(result.exit_code(), 2) << result.said();
    expect_says(result.process.err, says);
  };
  refused({{"step", 99}}, {"train.record.capture", "never reached"});
  refused({{"step", 2}, {"channel", "gradent"}}, {"gradent"});
  refused({{"step", 2}, {"channel", "gradient"}}, {"a channel that is not recorded", "'gradient'"});
  refused({{"step", 1}, {"channel", "weight"}}, {"a step that is not recorded", "every = 2"});
  refused({{"stp", 1}}, {"stp"});
}

}  // namespace
}  // namespace lockstep::test
