// lockstep blame: which control takes a difference away, and which change makes it.
#include "harness/experiment/blame.h"

#include <algorithm>

#include "harness/golden/processors.h"
#include "harness/golden/store.h"

#include "tests/support/tiny/pair.h"

namespace lockstep::test {
namespace {

using blaming::ControlResult;
using enum ControlResult::Outcome;
using Names = std::vector<std::string>;

/// A difference of two trainings, blamed on something.
struct Blamed {
  Scratch scratch;
  MemoryWorker worker{scratch.path() / "runs"};
  const std::filesystem::path golden_root = scratch.path() / "golden";
  std::vector<std::string> told;
  blaming::Blame blame;

  Blamed() = default;
  Blamed(const Json& changes, const std::string& vary, const blaming::Parties& parties = {"one", "other"}) {
    run(changes, vary, parties);
  }

  void run(const Json& changes, const std::string& vary, const blaming::Parties& parties = {"one", "other"}) {
    const scenario::Scenario scenario = tiny_scenario(changes, scratch);
    blame = blaming::blame(scenario, parties, blaming::chosen_controls(vary), golden_root, kToday, worker.execute(),
                           [&](const std::string& text) { told.push_back(text); });
  }

  /// Accepts the variant `main` of a scenario.
  void accept(const Json& changes) {
    plan::Plan plan = plan::make_plan({tiny_scenario(changes, scratch)});
    const trace::RunTrace run = *worker.run(plan, "").at(0).trace;
    const std::vector<trace::Channel> all = trace::all_channels();
    golden::accept(golden::golden_file(golden_root, "tiny", "main"),
                   {.name = {"tiny", "main"},
                    .key = golden::class_of(run),
                    .recipe = plan.scenarios[0].variants[0].train_json,
                    .channels = {all.begin(), all.end()},
                    .repeats = {run, run},
                    .acceptance = {.date = kToday, .reason = "a test"}});
  }

  judge::Status status() const { return blame.check().status; }

  /// What became of the difference under a control.
  ControlResult of(const std::string& control) const {
    for (const ControlResult& one : blame.controls) {
      if (one.control.name() == control) return one;
    }
    ADD_FAILURE() << control << " was not tried";
    return {};
  }

  Names smallest() const {
    Names paths;
    for (const scenario::Change& change : blame.smallest) paths.push_back(change.path());
    return paths;
  }
};

testing::AssertionResult is(const Blamed& blamed, const char* control, ControlResult::Outcome outcome) {
  const ControlResult result = blamed.of(control);
  if (result.outcome == outcome) return testing::AssertionSuccess();
  return testing::AssertionFailure() << control << ": " << name_of(result.outcome) << " (" << result.shows << ")";
}

const Json kSmallBuckets = train("ddp", {{"bucket_mb", 0.002}});

TEST(Blame, TriesNothingWhereNothingDiffers) {
  const Blamed green(pair("equal", kNone, {{"launch", {{"arrival_delay_ms", {20}}}}}), "");
  EXPECT_EQ(green.status(), judge::Status::kAgree);
  EXPECT_TRUE(green.blame.controls.empty());
  EXPECT_EQ(green.worker.folders(), (Names{"as_they_are"}));
}

TEST(Blame, NamesOnlyTheChangeThatMatters) {
  const Json other = merged({train("optimizer", {{"lr", 0.05}}),
                             train("ddp", {{"find_unused_parameters", true}}),
                             {{"launch", {{"arrival_delay_ms", {30}}}}}});
  const Blamed red(pair("equal", kNone, other), "threads,place");
  EXPECT_EQ(red.status(), judge::Status::kDivergence);
  EXPECT_EQ(red.blame.changes.size(), 3U);
  EXPECT_TRUE(red.blame.found);
  EXPECT_EQ(red.smallest(), (Names{"train.optimizer.lr"}));
  EXPECT_TRUE(is(red, "threads", kStays));
  EXPECT_TRUE(is(red, "place", kStays));
  EXPECT_EQ(red.blame.controls.size(), 2U);
  EXPECT_EQ(red.told.at(0), "the trainings unchanged");
  EXPECT_EQ(red.told.at(1), "control 1 of 2: threads");
  EXPECT_EQ(red.told.at(3), "changes of the variant: launch.arrival_delay_ms");
}

TEST(Blame, NamesAllChangesThatMatterByThemselves) {
  const Json other = merged({train("optimizer", {{"lr", 0.05}}), train("batch", {{"global", 24}})});
  const Blamed red(pair("equal", kNone, other), "threads");
  EXPECT_EQ(red.smallest(), (Names{"train.batch.global", "train.optimizer.lr"}));
}

/// Seven ranks do not divide a batch of 4, nor two ranks one of 7: neither is a training by itself.
TEST(Blame, NamesChangesThatMatterTogetherAlone) {
  const Json other = merged({on_ranks(7), train("batch", {{"global", 7}}), {{"launch", {{"arrival_delay_ms", {30}}}}}});
  const Blamed red(pair("rounding", train("batch", {{"global", 4}}), other), "threads",
                   {"one", "other", scenario::CheckKind::kRounding});
  EXPECT_EQ(red.status(), judge::Status::kDivergence);
  EXPECT_EQ(red.blame.changes.size(), 3U);
  EXPECT_TRUE(red.blame.found);
  EXPECT_EQ(red.smallest(), (Names{"train.batch.global", "world_size"}));
  EXPECT_NE(std::find(red.told.begin(), red.told.end(), "changes of the variant: all but world_size"), red.told.end());
}

TEST(Blame, TakesAChangeThatIsTheOnlyOneForTheReason) {
  const Blamed red(pair("equal", kNone, train("optimizer", {{"lr", 0.05}})), "threads");
  EXPECT_TRUE(red.blame.found);
  EXPECT_EQ(red.smallest(), (Names{"train.optimizer.lr"}));
  EXPECT_FALSE(red.worker.made("changes_1"));  // that is what was judged
}

TEST(Blame, SeesADifferenceVanishInOneOrderOfAdding) {
  const Blamed red(pair("equal", on_ranks(3), merged({on_ranks(3), kSmallBuckets})), "-float64");
  EXPECT_EQ(red.status(), judge::Status::kDivergence);
  for (const char* control : {"buckets", "order", "two_ranks", "one_rank", "exact"})
    EXPECT_TRUE(is(red, control, kVanishes)) << control;
  for (const char* control : {"threads", "isa", "deterministic", "delays", "fill", "place"})
    EXPECT_TRUE(is(red, control, kStays)) << control;
  EXPECT_EQ(red.smallest(), (Names{"train.ddp.bucket_mb"}));
}

// The finding is the mistake; what a control does is seen at the first bit.
TEST(Blame, HoldsControlsAgainstTheFirstDifferenceOfAny) {
  const Json other = merged({on_ranks(3), kSmallBuckets, planted("gradient_factor", 2, {{"factor", 1.5}})});
  const Blamed red(pair("equal", on_ranks(3), other), "threads,fill,order");
  EXPECT_EQ(red.blame.check().result.divergence->step, 2);
  EXPECT_TRUE(is(red, "threads", kStays));
  EXPECT_TRUE(is(red, "fill", kStays));
  EXPECT_TRUE(is(red, "order", kMoves));
  EXPECT_NE(red.of("order").shows.find("first at step 2, gradient fc1.bias"), std::string::npos);
}

TEST(Blame, TellsANewDifferenceFromAnOldOneByAStepFromOneState) {
  const Json late = planted("gradient_factor", 2, {{"factor", 1.5}});
  const Blamed now(pair("equal", kNone, late), "same_state");
  EXPECT_TRUE(is(now, "same_state", kStays));
  // The bits part in the first step, which has one state anyway.
  const Blamed old(pair("equal", on_ranks(1), on_ranks(4)), "same_state");
  EXPECT_TRUE(is(old, "same_state", kDoesNotApply));
  EXPECT_NE(old.of("same_state").shows.find("its own initial state"), std::string::npos);
}

/// The step of the difference computes the same from one state: it is older than that.
TEST(Blame, SeesAnOldDifferenceVanishFromOneState) {
  const Json every_second = train("record", {{"every", 2}});
  const Json once = planted("flip_weight_bit", 1, {{"rank", 0}, {"bit", 20}, {"once", true}});
  const Blamed red(pair("equal", kNone, once, merged({on_ranks(1), every_second})), "same_state,threads");
  EXPECT_EQ(red.blame.check().result.divergence->step, 2);
  EXPECT_TRUE(is(red, "same_state", kVanishes));
  EXPECT_TRUE(is(red, "threads", kStays));
}

TEST(Blame, DoesNotStepFromOneStateWhereASideLoadsItsOwn) {
  const Json restore = {"weights", "optimizer", "schedule", "sampler"};
  const Json loads = train("checkpoint", {{"load", {{"from", "saved"}, {"restore", restore}}}});
  Json three = pair("equal", loads, merged({loads, planted("gradient_factor", 3, {{"factor", 1.5}})}));
  three["variants"]["saved"] = merged({train("steps", 2), train("checkpoint", {{"save_after", 2}})});
  const Blamed red(three, "same_state");
  EXPECT_EQ(red.blame.check().result.divergence->step, 3);
  EXPECT_TRUE(is(red, "same_state", kDoesNotApply));
  EXPECT_NE(red.of("same_state").shows.find("its own checkpoint"), std::string::npos);
}

/// It is equal now and then without any control.
TEST(Blame, AsksSeveralTimesWhetherARandomDifferenceIsGone) {
  const Blamed red(pair("equal", kNone, train("seed", {{"policy", "unseeded"}})), "threads");
  EXPECT_EQ(red.blame.check().result.divergence->class_, Class::kNondeterminism);
  EXPECT_TRUE(is(red, "threads", kStays));
  EXPECT_FALSE(red.worker.made("control_threads_1"));

  Blamed gone;
  gone.worker.otherwise = [](const std::string& where, scenario::Variant& variant) {
    if (where.starts_with("control_")) variant.train.seed.policy = recipe::SeedPolicy::kSame;
  };
  gone.run(pair("equal", train("seed", {{"policy", "same"}}), train("seed", {{"policy", "unseeded"}})), "threads");
  EXPECT_TRUE(is(gone, "threads", kVanishes));
  EXPECT_NE(gone.of("threads").shows.find("equal in 4 runs"), std::string::npos) << gone.of("threads").shows;
  EXPECT_TRUE(gone.worker.made("control_threads_3"));
  EXPECT_FALSE(gone.worker.made("control_threads_4"));
}

TEST(Blame, LeavesAControlUndecidedWhoseRunDies) {
  Blamed red;
  red.worker.dies = [](const std::string& where) { return where == "control_threads/tiny/other/0"; };
  red.run(pair("equal", kNone, train("optimizer", {{"lr", 0.05}})), "threads");
  EXPECT_TRUE(is(red, "threads", kUndecided));
  EXPECT_NE(red.of("threads").shows.find("tiny/other/0"), std::string::npos);
}

TEST(Blame, DoesNotApplyAControlThatMakesNoTraining) {
  const Json three = merged({on_ranks(3), train("batch", {{"global", 9}})});
  const Blamed red(pair("equal", three, merged({three, kSmallBuckets})), "two_ranks,one_rank");
  EXPECT_TRUE(is(red, "two_ranks", kDoesNotApply));  // which do not divide 9
  EXPECT_TRUE(is(red, "one_rank", kVanishes));
}

TEST(Blame, HoldsATrainingAgainstItsGolden) {
  const Json main = small_training({{"variants", {{"main", kNone}}}, {"checks", {check_of("golden")}}});
  const blaming::Parties parties{"main", "golden", scenario::CheckKind::kGolden};
  Blamed lacking(main, "threads", parties);
  EXPECT_EQ(lacking.status(), judge::Status::kBaseline);
  EXPECT_TRUE(lacking.blame.controls.empty());

  Blamed same;
  same.accept(main);
  same.run(main, "threads", parties);
  EXPECT_EQ(same.status(), judge::Status::kAgree);
  same.worker.otherwise = [](const std::string&, scenario::Variant& variant) {
    variant.train.optimizer.options["lr"] = 0.05;  // which the recipe does not tell
  };
  same.run(main, "threads,one_rank,exact,same_state", parties);
  EXPECT_EQ(same.status(), judge::Status::kDivergence);
  EXPECT_TRUE(same.blame.changes.empty());
  EXPECT_TRUE(is(same, "threads", kStays));
  for (const char* control : {"one_rank", "exact", "same_state"})
    EXPECT_TRUE(is(same, control, kDoesNotApply)) << control;
}

/// A control is another recipe, whose golden would be stale: it is held against that of the training without it.
TEST(Blame, HoldsAControlAgainstTheGoldenOfTheTrainingWithoutIt) {
  const Json main = small_training({{"variants", {{"main", kNone}}}, {"checks", {check_of("golden")}}});
  Blamed red;
  red.accept(main);
  red.worker.otherwise = [](const std::string& where, scenario::Variant& variant) {
    if (!where.starts_with("control_")) variant.train.optimizer.options["lr"] = 0.05;
  };
  red.run(main, "isa,fill", {"main", "golden", scenario::CheckKind::kGolden});
  EXPECT_EQ(red.status(), judge::Status::kDivergence);
  EXPECT_TRUE(is(red, "fill", kVanishes));
  EXPECT_TRUE(is(red, "isa", kUndecided));  // of other processors there is no golden
}

}  // namespace
}  // namespace lockstep::test
