// `lockstep audit checkpoint`: which parts must be restored, who may load them and when, and on how many ranks.
#include "tests/audit/audited.h"

namespace lockstep::test {
namespace {

using enum audit::Answer;

/// Momentum, running means and an average of the weights: all that a checkpoint can hold matters, but for generators.
const Json kHoldsAll = {{"model", {{"kind", "resnet"}, {"widths", {4, 8}}, {"norm", "batch"}}},
                        {"ema", {{"decay", 0.9}}}};

Json on(int world_size, const Json& train) {
  Json whole = recipe(train);
  whole["world_size"] = world_size;
  return whole;
}

Audited audited(const Json& recipe, std::vector<std::int64_t> ranks, std::vector<std::string> only = {}) {
  return Audited(recipe, std::move(ranks), std::move(only), audit::Kind::kCheckpoint);
}

TEST(Checkpoint, TellsThePartsThatMatter) {
  const Audited rich = audited(on(3, kHoldsAll), {3});
  EXPECT_EQ(rich.result.status(), judge::Status::kAgree) << rich.result.headline;
  for (const char* id : {"saving", "everything"}) EXPECT_TRUE(answers(rich, id, kIdentical));
  for (const char* part : {"weights", "optimizer", "ema", "schedule", "sampler", "buffers"})
    EXPECT_TRUE(answers(rich, std::string("without-") + part, kNeeded));
  EXPECT_TRUE(answers(rich, "without-buckets", kRounding));
  EXPECT_TRUE(answers(rich, "without-rng", kIdentical));
  EXPECT_TRUE(answers(rich, "weights-only", kNeeded));
  EXPECT_TRUE(answers(rich, "epoch-next", kSlip));
  EXPECT_TRUE(answers(rich, "epoch-again", kSlip));
  EXPECT_EQ(rich.result.headline,
            "a resumed training equals an uninterrupted one if it restores weights, optimizer, ema, schedule, "
            "sampler, buffers");
}

TEST(Checkpoint, TellsWhoMayLoadAndWhen) {
  const Audited rich = audited(on(3, kHoldsAll), {3}, {"rank0", "all."});
  EXPECT_TRUE(answers(rich, "all.after_wrap.weights", kIdentical));
  EXPECT_TRUE(answers(rich, "rank0_sends.before_wrap.weights", kIdentical));
  EXPECT_TRUE(answers(rich, "rank0.before_wrap.weights", kIdentical));  // DDP sends them
  for (const char* id :
       {"rank0.after_wrap.weights", "rank0.before_wrap.weights+optimizer", "rank0.after_wrap.weights+optimizer"})
    EXPECT_TRUE(answers(rich, id, kSlip));
}

/// A counter that begins again has fewer updates before it.
TEST(Checkpoint, EndsWhereTheTrainingThatNeverStoppedEnds) {
  const Audited counts = audited(on(2, Json::object()), {2}, {"without-schedule", "without-buckets"});
  std::vector<std::int64_t> steps;
  for (const scenario::Variant& variant : counts.examination->scenario().variants) {
    if (variant.train.checkpoint.load) steps.push_back(variant.train.steps);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{2, 4}));
}

TEST(Checkpoint, NeedsTheGeneratorsOfAModelThatDrops) {
  const Json drops = on(2, {{"model", {{"kind", "mlp"}, {"hidden", {6}}, {"dropout", 0.5}}}});
  EXPECT_TRUE(answers(audited(drops, {2}, {"without-rng"}), "without-rng", kNeeded));
}

TEST(Checkpoint, NeedsLittleOfAPlainTraining) {
  const Audited poor = audited(on(2, {{"optimizer", {{"kind", "sgd"}, {"lr", 0.1}, {"momentum", 0}}}}), {2, 1, 3});
  EXPECT_EQ(poor.result.status(), judge::Status::kAgree) << poor.result.headline;
  for (const char* part : {"optimizer", "rng", "buffers"})
    EXPECT_TRUE(answers(poor, std::string("without-") + part, kIdentical));
}

TEST(Checkpoint, GoesOnOnAnotherNumberOfRanks) {
  const Audited elsewhere = audited(on(2, Json::object()), {2, 1, 3}, {"everything@"});
  for (const char* id : {"everything@1", "everything@3"}) EXPECT_TRUE(answers(elsewhere, id, kRounding));
  const Audited blocks = audited(on(2, {{"sampler", {{"kind", "contiguous"}}}}), {2, 1}, {"everything@"});
  EXPECT_TRUE(answers(blocks, "everything@1", kNoIdentity));
}

/// A recipe that goes on from a checkpoint of its own variant "saved".
Json resuming(int world_size, const Json& train, const Json& load, const Json& faults = Json::array(), int after = 1) {
  Json whole = on(world_size, train);
  Json own = load;
  own["from"] = "saved";
  Json recipe = whole["variants"]["main"], saved = recipe;
  recipe["train"]["checkpoint"] = {{"load", own}};
  recipe["train"]["faults"] = faults;
  saved["train"]["checkpoint"] = {{"save_after", after}};
  whole["variants"] = {{"saved", saved}, {"recipe", recipe}};
  return whole;
}

TEST(Checkpoint, NamesAMistakeOfTheRestart) {
  for (const auto& [kind, cause] :
       {std::pair("state_cast", "ckpt.dtype_cast"), std::pair("counter_off", "ckpt.off_by_one")}) {
    const Audited broken =
        audited(resuming(2, kHoldsAll, Json::object(), Json::array({mistake(kind, 0)})), {2}, {"everything"});
    EXPECT_EQ(broken.result.status(), judge::Status::kDivergence) << kind;
    EXPECT_TRUE(answers(broken, "everything", kBroken)) << kind;
    EXPECT_TRUE(broken.line("everything").cause.starts_with(cause)) << kind << broken.line("everything").cause;
  }
}

TEST(Checkpoint, SeesADrawAfterTheGeneratorsAreRestored) {
  const Json drops = {{"model", {{"kind", "mlp"}, {"hidden", {6}}, {"dropout", 0.5}}}};
  const Audited broken =
      audited(resuming(2, drops, Json::object(), Json::array({mistake("draw_after_restore", 0)})), {2}, {"everything"});
  EXPECT_TRUE(answers(broken, "everything", kBroken));
}

TEST(Checkpoint, TellsARecipeWhatItsOwnWayLacks) {
  const Json load = {{"restore", {"weights", "schedule", "sampler"}}};
  const Audited lacks = audited(resuming(2, Json::object(), load), {2});
  EXPECT_EQ(lacks.result.status(), judge::Status::kDivergence);
  EXPECT_TRUE(answers(lacks, "as-written", kBroken));
  EXPECT_EQ(lacks.line("as-written").instead, "restore these, too: optimizer");
  EXPECT_TRUE(lacks.result.headline.starts_with("broken: as-written")) << lacks.result.headline;
}

/// Two updates are left of an epoch; the next one's order is drawn from the generator.
TEST(Checkpoint, CallsNothingIdenticalThatALaterEpochNeeds) {
  const Audited drawn = audited(on(1, {{"sampler", {{"kind", "none"}}}}), {1});
  EXPECT_TRUE(answers(drawn, "without-rng", kNotSeen));
  EXPECT_TRUE(holds(drawn.result.headline, "beyond these updates, rng")) << drawn.result.headline;
}

/// Three updates in an epoch. After four of them the next epoch is the wrong place to go on, after three the right one.
TEST(Checkpoint, TriesARecipesOwnWayAfterItsOwnUpdate) {
  for (const auto& [after, answer] : {std::pair(2, kBroken), std::pair(3, kIdentical)}) {
    const Json three = {{"data", {{"size", 36}}}};
    const Audited own = audited(resuming(1, three, {{"epoch", "next"}}, Json::array(), after), {1}, {"as-written"});
    EXPECT_TRUE(answers(own, "as-written", answer)) << after;
    EXPECT_TRUE(holds(own.line("as-written").text, "after update " + std::to_string(after)));
  }
}

void expect_refused(const Json& recipe, const audit::Request& request, const std::string& words) {
  Audited refused;
  try {
    refused.run(recipe, request);
    ADD_FAILURE() << words;
  } catch (const InputError& error) {
    EXPECT_TRUE(holds(error.problem().what, words)) << error.problem().what;
  }
}

TEST(Checkpoint, RefusesOneUpdateAndUnknownVariants) {
  const audit::Request one{.kind = audit::Kind::kCheckpoint, .variant = {}, .ranks = {1}, .steps = 1};
  expect_refused(recipe(), one, "no update between");
  audit::Request unknown = one;
  unknown.variant = "mian";
  expect_refused(recipe(), unknown, "unknown variant 'mian'");
}

}  // namespace
}  // namespace lockstep::test
