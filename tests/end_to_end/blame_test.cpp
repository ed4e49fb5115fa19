// lockstep blame with real control runs. What it makes of them is decided in tests/blame, on trainings in memory.
#include "tests/end_to_end/fixture.h"
#include "tests/support/part.h"

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

TEST_F(BlameEndToEnd, BucketsAreBlamedWhereOneOrderOfAddingMakesTheDifferenceVanish) {
  const Json base = {{"world_size", 3}, {"train", {{"model", {{"kind", "mlp"}, {"hidden", {32, 32}}}}}}};
  const Json small = {{"train", {{"ddp", {{"bucket_mb", 0.002}}}}}};
  const Result red = blame(two(kNone, small, base), {"--vary", "buckets,order,exact,same_state,threads"});
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  for (const char* control : {"buckets", "order", "exact"}) EXPECT_EQ(outcome(red, control), "vanishes") << control;
  EXPECT_EQ(outcome(red, "threads"), "stays");
  EXPECT_EQ(paths(red.json.at("smallest_change")), (std::vector<std::string>{"train.ddp.bucket_mb"}));
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
  if (!in_part(0, 2)) return;
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
}

TEST_F(BlameEndToEnd, ExactTrainingsWithDropoutAreEqualInAnyOrder) {
  if (!in_part(1, 2)) return;
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

}  // namespace
}  // namespace lockstep::test
