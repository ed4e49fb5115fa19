// The one thing that a control run changes.
#include "harness/experiment/control.h"

#include "harness/base/error.h"

#include "tests/support/tiny/pair.h"

namespace lockstep::test {
namespace {

using experiment::Control;

/// Under a control, with the scratch that its file lies in.
struct Under {
  Scratch scratch;
  scenario::Scenario original, changed;

  Under(const Control& control, const Json& changes, const std::vector<std::string>& variants)
      : original(tiny_scenario(changes, scratch)), changed(experiment::under(control, original, variants)) {}

  const recipe::TrainSpec& train(const char* variant = "other") const { return changed.variant(variant).train; }
};

TEST(Control, UnchangedChangesNothingButTheRepeats) {
  const Under again(experiment::unchanged("replay", 3), pair("equal", kNone, kNone), {"one", "other"});
  EXPECT_EQ(again.changed.repeats, 3);
  EXPECT_TRUE(again.changed.checks.empty());
  EXPECT_EQ(again.changed.variant("one").train_json, again.original.variant("one").train_json);
}

TEST(Control, TakesTheVariantsThatAreAskedAndWhatTheyLoadFrom) {
  Json three = pair("equal", kNone, train("checkpoint", {{"load", {{"from", "saved"}}}}));
  three["variants"]["saved"] = merged({train("steps", 2), train("checkpoint", {{"save_after", 2}})});
  const Under other(experiment::unchanged("replay"), three, {"other"});
  EXPECT_EQ(other.changed.variants.size(), 2U);
  EXPECT_NO_THROW(other.changed.variant("saved"));
}

TEST(Control, InFloat64WidensTheCompression) {
  const Under wide(experiment::in_float64(), pair("equal", kNone, train("ddp", {{"compression", "bf16"}})),
                   {"one", "other"});
  EXPECT_EQ(wide.train().precision, recipe::Precision::kFloat64);
  EXPECT_EQ(wide.train().ddp.compression, recipe::Compression::kFp64);
  EXPECT_EQ(wide.train("one").ddp.compression, recipe::Compression::kNone);
  EXPECT_TRUE(experiment::in_float64().one_start);
}

TEST(Control, FillsFreshMemoryWithTwoPatterns) {
  const Under one(experiment::filled(), pair("equal", kNone, kNone), {"other"}),
      two(experiment::filled_otherwise(), pair("equal", kNone, kNone), {"other"});
  const auto byte = [](const Under& of) {
    return of.changed.variant("other").launch.environment.at("MALLOC_PERTURB_");
  };
  EXPECT_NE(byte(one), byte(two));
  for (const Under* of : {&one, &two}) EXPECT_EQ(of->train().determinism.algorithms, recipe::Algorithms::kDefault);
}

compare::Divergence place(std::int64_t step, Channel channel, const std::string& tensor) {
  compare::Divergence at;
  at.step = step;
  at.channel = channel;
  at.tensor = tensor;
  return at;
}

TEST(Control, LooksAtAGradientAndAtTheRanksOwn) {
  const Control looking =
      experiment::looking_at(experiment::unchanged("replay"), place(2, Channel::kGradient, "fc1.w"));
  const Under seen(looking, pair("equal", kNone, kNone), {"other"});
  ASSERT_EQ(seen.train().record.captures.size(), 2U);
  EXPECT_EQ(seen.train().record.captures[0].channel, "gradient");
  EXPECT_EQ(seen.train().record.captures[1].channel, "gradient.local");
  for (const recipe::CaptureSpec& capture : seen.train().record.captures) EXPECT_EQ(capture.tensor, "fc1.w");
}

/// What a pattern treats as special stands for any one character.
TEST(Control, LooksAtANameThatIsNoPattern) {
  const Control looking = experiment::looking_at(experiment::unchanged("replay"), place(1, Channel::kWeight, "a[0].*"));
  const Under seen(looking, pair("equal", kNone, kNone), {"other"});
  ASSERT_EQ(seen.train().record.captures.size(), 1U);
  EXPECT_EQ(seen.train().record.captures[0].tensor, "a?0].?");
}

TEST(Control, LooksAroundAtAllRecordsOfTheChannel) {
  const Control looking =
      experiment::looking_around(experiment::unchanged("replay"), place(1, Channel::kWeight, "fc1.bias"));
  const Under seen(looking, pair("equal", kNone, kNone), {"other"});
  ASSERT_EQ(seen.train().record.captures.size(), 1U);
  EXPECT_EQ(seen.train().record.captures[0].tensor, "*");
}

/// A training that saves ends earlier, and may record less.
TEST(Control, LooksAtNoStepThatATrainingDoesNotReach) {
  const Json shorter = train("steps", 2), losses = train("record", {{"channels", {"loss"}}});
  const Control looking =
      experiment::looking_at(experiment::unchanged("replay"), place(3, Channel::kWeight, "fc1.bias"));
  const Under seen(looking, pair("equal", shorter, losses), {"one", "other"});
  EXPECT_TRUE(seen.train("one").record.captures.empty());
  ASSERT_EQ(seen.train("other").record.captures.size(), 1U);
  EXPECT_EQ(seen.train("other").record.captures[0].channel, "");  // its operators alone
}

}  // namespace
}  // namespace lockstep::test
