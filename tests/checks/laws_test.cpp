// Laws as a check of a scenario: the earliest breach is told, and what nothing judges is never agreement.
#include <limits>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/laws/law.h"
#include "harness/scenario/schema.h"

#include "tests/support/tiny/bench.h"
#include "tests/support/tiny/mixed.h"

namespace lockstep::checks {
namespace {

using test::Bench;
using test::multiply;
using trace::Channel;

/// The tiny training shuffles in an order of its own.
Json laws(const std::vector<std::string>& names = {}, Json train = Json::object()) {
  train["sampler"] = {{"kind", "distributed"}, {"shuffle", false}};
  Json check = {{"that", "laws"}};
  if (!names.empty()) check["laws"] = names;
  return {{"train", train}, {"variants", {{"a", Json::object()}}}, {"checks", {check}}};
}

TEST(CheckLaws, ACleanTrainingKeepsThem) {
  EXPECT_TRUE(test::agrees(Bench(laws()).check()));
  EXPECT_TRUE(test::agrees(Bench(laws({"reduction", "update", "state", "finite"})).check()));
}

/// The state breaks at step 2, an update at step 1: the order of steps decides, not that of the table.
TEST(CheckLaws, TheEarliestBreachIsTold) {
  Bench bench(laws());
  multiply(bench.run("a"), 2, Channel::kOptimizer, 3);
  EXPECT_TRUE(test::diverges_at(bench.check(), 2, Channel::kOptimizer, "fc.bias.momentum_buffer", 0));
  multiply(bench.run("a"), 1, Channel::kWeight, 1.01);
  EXPECT_TRUE(test::diverges_at(bench.check(), 1, Channel::kWeight, "fc.bias", 0));
}

TEST(CheckLaws, ALawIsJudgedByName) {
  Bench bench(laws({"reduction"}));
  multiply(bench.run("a"), 1, Channel::kWeight, 1.01);
  EXPECT_TRUE(test::agrees(bench.check()));
}

TEST(CheckLaws, NothingJudgedIsNoAgreement) {
  Bench bench(laws());
  for (trace::Trace& rank : bench.run("a").ranks) {
    for (trace::Step& step : rank.steps) step.records.clear();
  }
  EXPECT_TRUE(test::is_inconclusive(bench.check(), "cannot be judged"));
}

TEST(CheckLaws, EachNamedLawMustBeJudged) {
  EXPECT_TRUE(test::is_inconclusive(Bench(laws({"update", "average"})).check(), "the law 'average'"));
  EXPECT_TRUE(
      test::is_inconclusive(Bench(laws({"reduction"}, {{"ddp", {{"wrap", false}}}})).check(), "does not apply"));
}

/// NaN hides the reduction, and a recipe that names no law is not green behind it.
TEST(CheckLaws, NanIsNoAgreement) {
  Bench bench(laws());
  for (trace::Trace& rank : bench.run("a").ranks) {
    for (trace::Record& record : rank.steps[2].records) {
      if (record.channel != Channel::kGradient && record.channel != Channel::kGradientLocal) continue;
      record.norm = record.max_abs = record.sketch->norm = std::numeric_limits<double>::quiet_NaN();
      record.sketch->buckets.fill(std::numeric_limits<double>::quiet_NaN());
    }
  }
  test::erase_channel(bench.run("a"), Channel::kWeight);
  EXPECT_TRUE(test::is_inconclusive(bench.check(), "NaN or infinity"));
}

/// Without slopes some of them could not be told.
TEST(CheckLaws, SwitchTheSlopesOnThatTheyNeed) {
  const auto slopes = [](const std::vector<std::string>& names) {
    test::Scratch scratch;
    return test::tiny_scenario(laws(names), scratch).variant("a").train.record.slopes;
  };
  EXPECT_FALSE(slopes({"update"}));
  EXPECT_TRUE(slopes({"update", "backward"}));
  EXPECT_TRUE(slopes({}));
}

TEST(CheckLaws, TheSchemaKnowsEachByName) {
  std::vector<std::string> names;
  for (const laws::Law& law : laws::all_laws()) names.emplace_back(law.name);
  const auto kind = static_cast<std::size_t>(scenario::CheckKind::kLaws);
  const Json& branch = scenario::schema()["definitions"]["check"]["oneOf"][kind];
  EXPECT_EQ(branch["properties"]["laws"]["items"]["enum"], Json(names));
  test::Scratch scratch;
  try {
    test::tiny_scenario(laws({"updat"}), scratch);
    FAIL() << "an unknown law is refused";
  } catch (const Error& error) {
    EXPECT_NE(error.problem().where.find("checks.0"), std::string::npos) << error.problem().where;
    EXPECT_NE(error.problem().expected.find("update"), std::string::npos) << error.problem().expected;
  }
}

}  // namespace
}  // namespace lockstep::checks
