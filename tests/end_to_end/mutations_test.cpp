// `lockstep run --mutations`: each mistake that a practice names turns a check of it red, or the command does.
#include "harness/base/files.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class MutationsEndToEnd : public EndToEnd {
 protected:
  /// A scenario of two variants, `a` and `b`, with one practice that its checks "same" and "ledger" prove.
  static Json practised(const Json& mutations, const Json& proven_by = {"same", "ledger"}) {
    return scenario({{"variants", {{"a", Json::object()}, {"b", Json::object()}}},
                     {"checks",
                      {check("equal", {{"name", "same"}, {"variants", {"a", "b"}}, {"on", {"gradient", "weight"}}}),
                       check("ledger")}},
                     {"practices", {{{"name", "a is b"}, {"proven_by", proven_by}, {"mutations", mutations}}}}});
  }

  static Json mutation(const std::string& name, const Json& change) { return {{"name", name}, {"change", change}}; }

  struct Tried {
    Outcome process;
    Json json;
    const Json& of(std::size_t mutation) const { return json.at("practices").at(0).at("mutations").at(mutation); }
  };

  Tried tried(const Json& scenario, const std::vector<std::string>& more = {}) {
    const auto json = scratch_.path() / "mutations.json";
    std::vector<std::string> arguments = {"run", "--mutations", write(scenario), "--json", json, "--jobs", "4"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Tried result{.process = run_lockstep(arguments)};
    if (std::filesystem::exists(json)) result.json = read_json(json);
    return result;
  }
};

const Json kOtherRate = at("train.optimizer.lr", 0.2);
const Json kFaultyRate = at("train.faults", Json::array({fault("learning_rate_factor", 0, -1, {{"factor", 2}})}));

TEST_F(MutationsEndToEnd, AMutationThatACheckFindsIsRed) {
  const Tried result =
      tried(practised(Json::array({mutation("b has twice the rate", {{"b", kOtherRate}}),
                                   mutation("the update takes twice the rate", {{"b", kFaultyRate}})})));
  EXPECT_EQ(result.process.exit_code, 0) << result.process.out << result.process.err;
  EXPECT_EQ(result.json.at("format"), "lockstep.mutations/1");
  EXPECT_EQ(result.json.at("unmutated"), "agree");
  for (const std::size_t i : {0, 1}) EXPECT_EQ(result.of(i).at("outcome"), "red");
  EXPECT_EQ(result.of(0).at("red"), Json::array({"same"}));  // the ledger follows the recipe that it is given
  EXPECT_EQ(result.of(1).at("red"), Json::array({"same", "ledger"}));
  expect_says(result.process.out,
              {"tiny: a is b\n  proven by   same; ledger\n", "  red         b has twice the rate\n    by        same\n",
               "2 of 2 mutations red, 0 green, 0 open; the scenarios as they are: agree"});
  EXPECT_EQ(tried(practised(Json::array({mutation("b has twice the rate", {{"b", kOtherRate}})})), {"--part", "1/1"})
                .process.exit_code,
            0);
}

TEST_F(MutationsEndToEnd, AMutationOfAllVariantsThatNothingFindsIsGreenAndFails) {
  const Tried result = tried(practised(Json::array({mutation("both have twice the rate", {{"*", kOtherRate}}),
                                                    mutation("b has twice the rate", {{"b", kOtherRate}})})));
  EXPECT_EQ(result.process.exit_code, 1) << result.process.out << result.process.err;
  EXPECT_EQ(result.of(0).at("outcome"), "green");
  EXPECT_EQ(result.of(1).at("outcome"), "red");
  expect_says(result.process.out, {"  GREEN       both have twice the rate", "1 of 2 mutations red, 1 green, 0 open"});
}

TEST_F(MutationsEndToEnd, AMutationThatKillsTheRunIsNoSuccess) {
  const Json killed = at("train.faults", Json::array({fault("kill", 1, 1)}));
  const Tried result = tried(practised(Json::array({mutation("a rank dies", {{"b", killed}})})));
  EXPECT_EQ(result.process.exit_code, 1) << result.process.out << result.process.err;
  EXPECT_EQ(result.of(0).at("outcome"), "open");
  expect_says(result.process.out,
              {"  OPEN        a rank dies\n    because   the run tiny/b~1/0 failed: ", "0 of 1 mutations red"});
}

TEST_F(MutationsEndToEnd, AScenarioThatIsRedItselfProvesNothing) {
  Json red = practised(Json::array({mutation("b has another rate", {{"b", kOtherRate}})}));
  red["variants"]["b"] = at("train.optimizer.lr", 0.3);
  const Tried result = tried(red);
  EXPECT_EQ(result.process.exit_code, 1) << result.process.out;
  EXPECT_EQ(result.json.at("unmutated"), "divergence");
  expect_says(result.process.out, {"DIVERGENCE  tiny: checks.0 equal (a, b)", "the scenarios as they are: divergence"});
}

TEST_F(MutationsEndToEnd, WhatLoadsFromAMutatedVariantIsMutatedToo) {
  Json resuming =
      scenario({{"variants",
                 {{"straight", Json::object()},
                  {"half", merged({at("train.steps", 2), at("train.checkpoint.save_after", 2)})},
                  {"resumed", at("train.checkpoint.load.from", "half")}}},
                {"checks",
                 {check("resumes", {{"straight", "straight"}, {"interrupted", "resumed"}}),
                  check("golden", {{"variants", {"straight"}}})}},
                {"practices",
                 {{{"name", "resumed"},
                   {"proven_by", {"resumes"}},
                   {"mutations", {mutation("the first half has another rate", {{"half", kFaultyRate}})}}},
                  {{"name", "held to its trace"},
                   {"proven_by", {"golden"}},
                   {"mutations", {mutation("the rate is another one in every variant", {{"*", kOtherRate}})}}}}}});
  accept(resuming);
  const Tried result = tried(resuming, {"--golden", golden_root()});
  EXPECT_EQ(result.process.exit_code, 0) << result.process.out << result.process.err;
  expect_says(result.process.out, {"2 of 2 mutations red"});
}

TEST_F(MutationsEndToEnd, AMutationThatMakesNoTrainingOrChangesNothingIsAnError) {
  const std::pair<Json, const char*> cases[] = {{{{"b", at("train.optimizer.lr", -1)}}, "train.optimizer.lr"},
                                                {{{"b", at("train.optimizer.lr", 0.1)}}, "a mutation changes nothing"},
                                                {{{"b", at("train.optimizer.rate", 1)}}, "unknown key 'rate'"}};
  for (const auto& [change, says] : cases) {
    const Tried result = tried(practised(Json::array({mutation("a slip", change)})));
    EXPECT_EQ(result.process.exit_code, 2) << result.process.out;
    expect_says(result.process.err, {says, "mutation 'a slip'"});
  }
  EXPECT_EQ(tried(scenario({{"checks", {check("ledger")}}})).process.exit_code, 2);
  EXPECT_EQ(run_lockstep({"run", write(practised(Json::array({mutation("m", {{"b", kOtherRate}})}))), "--part", "1/2"})
                .exit_code,
            2);
}

}  // namespace
}  // namespace lockstep::test
