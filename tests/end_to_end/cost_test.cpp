// lockstep cost with real runs. The decision on their times is in tests/app.
#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class CostEndToEnd : public EndToEnd {
 protected:
  /// Variants "deterministic" and "fast".
  static Json two(const Json& fast) {
    return scenario({{"variants", {{"deterministic", Json::object()}, {"fast", fast}}}});
  }

  Result cost(const Json& scenario, std::vector<std::string> more) {
    more.insert(more.begin(), write(scenario).string());
    return judged("cost", more);
  }
};

const std::vector<std::string> kBoth = {"--variant", "deterministic", "--against", "fast", "--rounds",
                                        "2",         "--steps",       "2"};

TEST_F(CostEndToEnd, StepsOfTwoVariantsAreMeasured) {
  const Result result = cost(two(at("train.determinism.algorithms", "default")), kBoth);
  EXPECT_TRUE(result.exit_code() == 0 || result.exit_code() == 4) << result.said();  // so short a run may be too short
  EXPECT_EQ(result.json.at("variant"), "deterministic");
  EXPECT_EQ(result.json.at("against"), "fast");
  EXPECT_EQ(result.json.at("steps"), 2);
  EXPECT_TRUE(result.json.at("at_most").is_null());
  ASSERT_EQ(result.json.at("rounds").size(), 2U);
  EXPECT_TRUE(result.json.at("rounds").at(0).at("against_s").is_number());
  for (const char* key : {"variant_s", "against_s", "ratio"}) {
    const Json& quartiles = result.json.at(key);
    if (quartiles.is_null()) continue;
    EXPECT_LE(quartiles.at("lower"), quartiles.at("median")) << key;
    EXPECT_LE(quartiles.at("median"), quartiles.at("upper")) << key;
  }
  expect_says(result.process.out, {" of 2 rounds"});
  expect_says(result.process.err, {"round 2 of 2"});
}

TEST_F(CostEndToEnd, ARunThatFailsIsItsVerdict) {
  const Result result = cost(two(at("train.faults", Json::array({fault("kill", 1, 1)}))), kBoth);
  EXPECT_EQ(result.exit_code(), 1) << result.said();
  EXPECT_EQ(result.failed_run().at("culprit_rank"), 1);
  EXPECT_FALSE(result.json.contains("ratio"));
}

TEST_F(CostEndToEnd, BadQuestionsAreRefused) {
  const auto refused = [&](const std::vector<std::string>& more, const std::vector<std::string>& says) {
    const Result result = cost(two(Json::object()), more);
    EXPECT_EQ(result.exit_code(), 2) << result.said();
    expect_says(result.process.err, says);
  };
  refused({"--variant", "deterministic", "--against", "fats"}, {"unknown variant 'fats'", "did you mean 'fast'"});
  refused({"--variant", "fast", "--against", "fast"}, {"both sides are the variant 'fast'"});
  refused({"--variant", "fast"}, {"--against"});
  refused({"--variant", "fast", "--against", "deterministic", "--at-most", "0"}, {"--at-most"});
}

}  // namespace
}  // namespace lockstep::test
