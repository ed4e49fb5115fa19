// What control runs make of a finding: each observation, and the row that it leads to.
#include "harness/base/error.h"

#include "tests/support/tiny/pair.h"

namespace lockstep::test {
namespace {

using Names = std::vector<std::string>;

/// Whether a run is one of a control.
bool is_again(const std::string& where) { return !where.starts_with("tiny/"); }

/// A program that does not do the same twice: a planted factor is another one in control runs.
void set_factor(scenario::Variant& variant, double factor) {
  if (!variant.train.faults.empty()) variant.train.faults[0].options["factor"] = factor;
}

TEST(Investigation, OfAGreenCheckTriesNothing) {
  const Investigated green(pair("equal", kNone, kNone));
  expect_agreement(green, "");
  EXPECT_TRUE(green.worker.folders().empty());
}

TEST(Investigation, CallsADifferenceThatStaysInFloat64NoRounding) {
  const Investigated red(pair("equal", kNone, planted("gradient_factor", 1, {{"factor", 1 + 0x1p-20}})));
  expect_found(red, "stays_in_float64", "step 1, gradient fc1.bias, rank 0");
  EXPECT_TRUE(shows(red, "replay", "one/0 reproduces"));
  EXPECT_TRUE(shows(red, "replay", "other/0 reproduces"));
  EXPECT_TRUE(shows(red, "float64", "it is not rounding"));
  EXPECT_EQ(red.worker.folders(), (Names{"replay", "float64", "replay_often"}));
  EXPECT_EQ(red.worker.runs_in("replay_often"), 6U);
}

TEST(Investigation, DecidesInFloat64WhatAutocastRoundsAway) {
  const Json autocast = train("autocast", "bf16");
  const Investigated green(pair("rounding", on_ranks(1), on_ranks(3), autocast));
  expect_agreement(green, "all_shrink");
  EXPECT_TRUE(shows(green, "float64", "every difference shrinks like rounding"));
  EXPECT_FALSE(green.worker.made("one_state"));  // one step rounds as far as a mistake is large
  const Json summed = merged({on_ranks(3), planted("gradient_factor", 0, {{"factor", 1.125}})});
  const Investigated red(pair("rounding", on_ranks(1), summed, autocast));
  expect_found(red, "pairs_differ", "step 0, gradient fc1.bias, rank 0");
}

TEST(Investigation, CallsASideThatDoesNotComeOutAgainNondeterministic) {
  const Investigated red(pair("equal", kNone, train("seed", {{"policy", "unseeded"}})));
  expect_found(red, "varies", "step -1, rng cpu, rank 0", Class::kNondeterminism);
  EXPECT_TRUE(shows(red, "replay", "one/0 reproduces"));
  EXPECT_TRUE(shows(red, "replay", "other/0 does not reproduce"));
  EXPECT_TRUE(shows(red, "replay_often", "other/0 does not always reproduce"));
  EXPECT_FALSE(red.worker.made("float64"));
}

TEST(Investigation, SaysNothingOfRoundingWhereASideDoesNotComeOutAgain) {
  const Json small = planted("loss_factor", 2, {{"factor", 1.0000003}});
  const Investigated red(pair("equal", kNone, small), [](const std::string& where, scenario::Variant& variant) {
    if (is_again(where)) set_factor(variant, 1.0000006);
  });
  expect_found(red, "replay_differs", "step 2, loss local, rank 0", Class::kNondeterminism);
  EXPECT_TRUE(shows(red, "replay_twice", "two more runs matched: rare, or a one-off"));
  EXPECT_FALSE(red.worker.made("float64"));
}

/// One replay may be chance.
TEST(Investigation, ReplaysMoreOftenWhatCameOutAgainOnce) {
  const Json unlike = planted("gradient_factor", 1, {{"factor", 1 + 0x1p-20}});
  const Investigated red(pair("equal", kNone, unlike), [](const std::string& where, scenario::Variant& variant) {
    if (where == "replay_often/tiny/other/2") set_factor(variant, 1 + 0x1p-19);
  });
  expect_found(red, "varies", "step 1, gradient fc1.bias, rank 0", Class::kNondeterminism);
  EXPECT_TRUE(shows(red, "replay_often", "other/0 does not always reproduce"));
}

TEST(Investigation, LooksAtTheSideThatVaries) {
  const Json two = {{"repeats", 2},
                    {"variants", {{"seeded", kNone}, {"unseeded", train("seed", {{"policy", "unseeded"}})}}},
                    {"checks", {check_between("repeatable", {"seeded", "unseeded"})}}};
  const Investigated red(small_training(two));
  expect_found(red, "varies", "step -1, rng cpu, rank 0", Class::kNondeterminism);
  EXPECT_TRUE(shows(red, "replay_twice", "unseeded changes from run to run"));
  EXPECT_FALSE(red.worker.made("replay"));  // the repeats are one
  EXPECT_EQ(red.worker.runs_in("replay_twice"), 2U);
}

TEST(Investigation, FindsMemoryThatIsReadBeforeItIsWritten) {
  const Json unwritten = planted("gradient_uninitialised", 1, {{"parameter", "fc1.bias"}});
  const Investigated red(pair("equal", kNone, unwritten));
  expect_found(red, "follows_fill", "step 1, gradient fc1.bias, rank 0", Class::kNondeterminism);
  EXPECT_EQ(red.at().cause_id(), "mem.uninitialised");
  EXPECT_TRUE(shows(red, "replay_often", "element ["));
  EXPECT_TRUE(shows(red, "fill", "other follows the pattern in fresh memory, each time"));
  for (const char* folder : {"fill", "fill_otherwise", "fill_again", "fill_otherwise_again"})
    EXPECT_TRUE(red.worker.made(folder)) << folder;
}

TEST(Investigation, KeepsAFindingWhoseReplayDies) {
  Investigated red;
  red.worker.dies = [](const std::string& where) { return where == "replay/tiny/other/0"; };
  red.run(pair("equal", kNone, planted("gradient_factor", 1, {{"factor", 1 + 0x1p-20}})));
  EXPECT_EQ(red.check().status, judge::Status::kDivergence);
  EXPECT_TRUE(shows(red, "replay", "other/0 did not finish when replayed"));
}

TEST(Investigation, EndsWithWhatIsKnownWhereNothingCanRun) {
  Investigated red;
  red.plan = plan::make_plan(
      {tiny_scenario(pair("equal", kNone, planted("gradient_factor", 1, {{"factor", 1 + 0x1p-20}})), red.scratch)});
  red.evidence = red.worker.run(red.plan, "");
  red.verdict = judge::judge(red.plan, red.evidence, "", kToday);
  const auto full = [](plan::Plan&, const experiment::Again&) -> std::vector<judge::Evidence> {
    throw ResourceError({.what = "no space is left"});
  };
  experiment::investigate(red.verdict, red.plan, red.evidence, kToday, full);
  expect_found(red, "unchanged", "step 1, gradient fc1.bias, rank 0", Class::kRounding);
  EXPECT_TRUE(shows(red, "control runs", "no space is left"));
}

TEST(Investigation, CallsAnotherWorldSizeOfACleanTrainingRounding) {
  for (const Json& changes : {kNone, train("gradient", {{"clip_norm", 0.1}})}) {
    const Investigated red(pair("equal", on_ranks(1), on_ranks(3), changes));
    EXPECT_EQ(red.check().status, judge::Status::kDivergence);
    EXPECT_EQ(red.check().decided_by, "steps_agree") << red.told();
    EXPECT_EQ(red.at().class_, Class::kRounding);
    EXPECT_TRUE(shows(red, "float64", "it is rounding"));
    EXPECT_TRUE(shows(red, "one_state", "within the rounding of one step"));
  }
}

TEST(Investigation, FindsAMistakeInFloat32Only) {
  const Json factor = planted("gradient_factor", 1, {{"factor", 1 + 0x1p-10}, {"float32_only", true}});
  for (const int ranks : {1, 3}) {
    const Investigated red(pair("rounding", on_ranks(ranks), merged({on_ranks(3), factor})));
    expect_found(red, "step_differs_again", "step 1, gradient fc1.bias, rank 0");
    EXPECT_TRUE(shows(red, "float64", "a mistake in float32 only"));
    EXPECT_TRUE(shows(red, "another_state", "it also occurs with other weights"));
  }
}

/// Where all must be equal, rounding comes first.
TEST(Investigation, FindsAMistakeInFloat32OnlyBehindRounding) {
  const Json factor = planted("gradient_factor", 1, {{"factor", 1 + 0x1p-10}, {"float32_only", true}});
  const Investigated red(pair("equal", on_ranks(1), merged({on_ranks(3), factor})));
  EXPECT_EQ(red.at().step, 1) << red.told();
  EXPECT_EQ(red.at().class_, Class::kSemantic) << red.told();
  EXPECT_TRUE(shows(red, "float64", "a mistake in float32 only"));
}

TEST(Investigation, PlacesAMistakeWhereItBegins) {
  const Json small = mistake("gradient_factor", 0, {{"factor", 1 + 0x1p-21}, {"parameter", "fc2.weight"}}),
             large = mistake("gradient_factor", 2, {{"factor", 1 + 0x1p-8}});
  const Json other = merged({on_ranks(3), train("faults", {small, large})});
  const Investigated red(pair("rounding", on_ranks(1), other));
  expect_found(red, "begins_earlier", "step 0, gradient fc2.weight, rank 0");
  EXPECT_TRUE(shows(red, "float64", "begins at step 0"));
  EXPECT_TRUE(shows(red, "float64", "within the bound"));
}

TEST(Investigation, PassesRoundingThatComesBeforeAMistake) {
  const Json late = planted("gradient_factor", 2, {{"factor", 1 + 0x1p-8}});
  const Investigated red(pair("equal", on_ranks(1), merged({on_ranks(3), late})));
  expect_found(red, "behind_rounding", "step 2, gradient fc1.bias, rank 0");
  EXPECT_TRUE(shows(red, "float64", "is rounding; the first that stays in float64 is at step 2"));
}

TEST(Investigation, NeedsNoFloat64WhereACauseIsNamed) {
  const Investigated red(pair("equal", kNone, train("optimizer", {{"kind", "sgd"}, {"lr", 0.05}, {"momentum", 0.9}})));
  EXPECT_EQ(red.check().decided_by, "named") << red.told();
  EXPECT_FALSE(red.worker.made("float64"));
}

TEST(Investigation, NeedsNoFloat64OfWhatCannotRound) {
  const Investigated red(pair("equal", kNone, train("sampler", {{"kind", "distributed"}, {"seed", 5}})));
  EXPECT_EQ(red.at().channel, Channel::kSamples);
  EXPECT_EQ(red.at().class_, Class::kSemantic) << red.told();
  EXPECT_FALSE(red.worker.made("float64"));
}

TEST(Investigation, LeavesOpenWhatOverflowsOnBothSides) {
  const Json diverges = merged({train("optimizer", {{"lr", 1e6}, {"momentum", 0}}), train("steps", 12)});
  const Investigated open(pair("rounding", on_ranks(1), on_ranks(3), diverges));
  EXPECT_EQ(open.check().status, judge::Status::kInconclusive) << open.told();
  EXPECT_NE(open.check().result.why.find("NaN or infinity on both sides"), std::string::npos) << open.told();
  EXPECT_EQ(open.at().class_, Class::kUndecided);
}

TEST(Investigation, FindsASmallFactorOfASmallUpdate) {
  const Json on_weights = {{"checks", {check_of("rounding", {{"variants", {"one", "other"}}, {"on", {"weight"}}})}}};
  for (const char* kind : {"sgd", "rmsprop"}) {
    const Json slow = merged({train("optimizer", {{"kind", kind}, {"lr", 1e-5}}), train("steps", 5), on_weights});
    const Json base = {{"variants", nullptr}};
    const auto judged = [&](const Json& other) {
      Json whole = pair("rounding", on_ranks(1), merged({on_ranks(3), other}), on_weights);
      for (const char* side : {"one", "other"}) merge_json(whole["variants"][side], slow);
      for (const char* side : {"one", "other"}) whole["variants"][side].erase("checks");
      return whole;
    };
    const Investigated green(judged(kNone));
    expect_agreement(green, "");
    const Investigated red(judged(planted("learning_rate_factor", 3, {{"factor", 1 + 0x1p-10}})));
    EXPECT_EQ(red.check().status, judge::Status::kDivergence) << red.told();
    EXPECT_EQ(red.at().step, 3) << red.told();
    EXPECT_EQ(red.at().channel, Channel::kWeight) << red.told();
  }
}

/// Adam's update has no closed form in sketches: two of them tell what is beside it.
TEST(Investigation, NamesADecayBesideAdamsUpdate) {
  const auto judged = [](const Json& optimizer, const Json& other, double decay) {
    const Json both = train("optimizer", optimizer);
    Investigated red;
    red.worker.otherwise = [&](const std::string& where, scenario::Variant& variant) {
      if (where.find("/other/") != std::string::npos && decay > 0)
        variant.train.optimizer.options["weight_decay"] = decay;
    };
    red.run(pair("equal", both, merged({both, other})));
    EXPECT_EQ(red.check().status, judge::Status::kDivergence);
    return red.at().cause_id();
  };
  EXPECT_EQ(judged({{"kind", "adamw"}, {"lr", 0.01}, {"weight_decay", 0.125}}, kNone, 12.5), "opt.decay_scale");
  for (const char* kind : {"learning_rate_factor", "weights_decayed"})
    EXPECT_NE(judged({{"kind", "adam"}, {"lr", 0.01}}, planted(kind, 2, {{"factor", 1.01}}), 0), "opt.decay_scale");
}

/// Cases that need the same control share its runs.
TEST(Investigation, MakesOneRunForSeveralFindings) {
  Json three = pair("equal", kNone, planted("gradient_factor", 1, {{"factor", 1 + 0x1p-20}}));
  three["variants"]["third"] = planted("gradient_factor", 2, {{"factor", 1 + 0x1p-20}});
  three["checks"].push_back(check_between("equal", {"one", "third"}));
  const Investigated red(three);
  expect_found(red, "stays_in_float64", "step 1, gradient fc1.bias, rank 0");
  expect_found(red, "stays_in_float64", "step 2, gradient fc1.bias, rank 0", Class::kSemantic, 1);
  EXPECT_EQ(red.worker.runs_in("replay"), 3U);
  EXPECT_EQ(red.worker.runs_in("float64"), 3U);
}

TEST(Investigation, SettlesWhatIsExpectedToFail) {
  Json expected =
      pair("rounding", on_ranks(1), merged({on_ranks(3), planted("gradient_factor", 1, {{"factor", 1.5}})}));
  expected["checks"][0]["expect"] = {
      {"status", "divergence"}, {"reason", "planted"}, {"class", "semantic"}, {"at", {{"step", 1}}}};
  const Investigated green(expected);
  EXPECT_EQ(green.check().status, judge::Status::kAgree) << green.told();
  EXPECT_EQ(green.check().expected_failure, "planted");
}

}  // namespace
}  // namespace lockstep::test
