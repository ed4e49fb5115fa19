#include "harness/recipe/record_spec.h"

#include <gtest/gtest.h>

#include "tests/scenario/loading.h"

namespace lockstep::scenario {
namespace {

/// Losses and weights of every second update, with a look at one thing.
Json looking_at(const Json& capture) {
  Json document = test::with("train.steps", 4);
  document["train"]["record"] = {{"channels", {"loss", "weight"}}, {"every", 2}, {"capture", {capture}}};
  return document;
}

TEST(RecordSpec, LooksAtWhatIsRecorded) {
  const Scenario scenario = test::load(looking_at({{"step", 2}, {"channel", "weight"}}));
  const recipe::RecordSpec& record = scenario.variants[0].train.record;
  ASSERT_EQ(record.captures.size(), 1U);
  EXPECT_EQ(record.captures[0].tensor, "*");
  EXPECT_TRUE(record.holds(trace::Channel::kWeight));
  EXPECT_FALSE(record.holds(trace::Channel::kGradient));
}

TEST(RecordSpec, TheLastStepIsRecorded) {
  const Scenario scenario = test::load(looking_at({{"step", 3}, {"channel", "weight"}}));
  EXPECT_EQ(scenario.variants[0].last_recorded_step(), 3) << "of four steps every second, and the last";
}

TEST(RecordSpec, RefusesWhatCannotBeLookedAt) {
  const auto said = [](const Json& capture) { return describe(test::problem_of(looking_at(capture))); };
  const auto expect_said = [&](const Json& capture, const std::vector<std::string>& parts) {
    const std::string all = said(capture);
    for (const std::string& part : parts) EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
  };
  expect_said({{"step", 99}}, {"train.record.capture", "never reached"});
  expect_said({{"step", 2}, {"channel", "gradent"}}, {"gradent"});
  expect_said({{"step", 2}, {"channel", "gradient"}}, {"a channel that is not recorded", "'gradient'"});
  expect_said({{"step", 1}, {"channel", "weight"}}, {"a step that is not recorded", "every = 2"});
  expect_said({{"stp", 1}}, {"stp"});
}

}  // namespace
}  // namespace lockstep::scenario
