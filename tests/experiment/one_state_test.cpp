// Each step of all sides begins in one state: what rounding had grown to before shows no more.
#include "tests/support/tiny/pair.h"

namespace lockstep::test {
namespace {

const char* const kPlace = "step 4, weight fc1.bias, rank 0";

/// A side whose mistake is gone in the control runs of a folder.
void without_mistake_in(const std::string& folder, const std::string& where, scenario::Variant& variant) {
  if (where.starts_with(folder + "/")) variant.train.faults.clear();
}

TEST(OneState, ShowsAMistakeInFloat32Only) {
  Json several = pair("rounding", with_rmsprop(1), with_rmsprop(3));
  for (const bool float32_only : {true, false}) {
    const std::string name = float32_only ? "float32" : "everywhere";
    several["variants"][name] = merged({with_rmsprop(3), decayed(float32_only)});
    several["checks"].push_back(check_between("rounding", {"one", name}));
  }
  const Investigated red(several);
  expect_agreement(red, "");
  expect_found(red, "step_differs_again", kPlace, Class::kSemantic, 1);
  expect_found(red, "stays_in_float64", kPlace, Class::kSemantic, 2);
  EXPECT_TRUE(shows(red, "one_state", kPlace, 1));
  EXPECT_TRUE(shows(red, "another_state", "it also occurs with other weights", 1));
  for (const std::size_t check : {1U, 2U}) EXPECT_TRUE(red.at(check).element) << red.told(check);
  EXPECT_FALSE(red.at(1).operator_) << red.told(1);  // they cut their batches otherwise
}

/// Of gradients that are equal nothing but the update can make it.
TEST(OneState, OfAnUpdateFromEqualGradientsNeedsNoOtherWeights) {
  for (const char* that : {"rounding", "equal"}) {
    const Investigated red(pair(that, with_rmsprop(3), merged({with_rmsprop(3), decayed()})));
    expect_found(red, "update_differs", kPlace);
    EXPECT_TRUE(shows(red, "one_state", "update from equal gradients"));
    EXPECT_TRUE(red.at().element && red.at().operator_) << red.told();
    for (const char* folder : {"another_state", "replay_often"}) EXPECT_FALSE(red.worker.made(folder)) << folder;
  }
}

TEST(OneState, FindsAMistakeBehindRoundingWhereAllMustBeEqual) {
  const Investigated clean(pair("equal", with_rmsprop(1), with_rmsprop(3)));
  EXPECT_EQ(clean.check().decided_by, "steps_agree") << clean.told();
  EXPECT_EQ(clean.at().class_, Class::kRounding);
  EXPECT_TRUE(shows(clean, "one_state", "within the rounding of one step"));
  const Investigated red(pair("equal", with_rmsprop(1), merged({with_rmsprop(3), decayed()})));
  expect_found(red, "step_differs_again", kPlace);
}

TEST(OneState, IsTakenByEverySide) {
  Json three = pair("rounding", with_rmsprop(1), with_rmsprop(3));
  three["variants"]["third"] = merged({with_rmsprop(3), decayed()});
  three["checks"] = {check_between("rounding", {"one", "other", "third"})};
  const Investigated red(three);
  expect_found(red, "step_differs_again", kPlace);
  EXPECT_EQ(red.at().right.run, "third/0");
}

/// Before the next step would take the mistake back.
TEST(OneState, ShowsAMistakeInWhatIsNotRecorded) {
  const Json losses = train("record", {{"channels", {"loss"}}});
  const Investigated red(pair("rounding", with_rmsprop(1), merged({with_rmsprop(3), decayed()}), losses));
  expect_found(red, "step_differs_again", kPlace);
}

TEST(OneState, ShowsAMistakeInFloat64ThatNothingRecords) {
  const Json losses = train("record", {{"channels", {"loss"}}});
  const Json last = planted("weights_decayed", 7, {{"factor", 1 + 0x1p-10}, {"parameter", "fc1.bias"}});
  const Investigated red(pair("equal", with_rmsprop(1), merged({with_rmsprop(3), last}), losses));
  expect_found(red, "step_differs_in_float64", "step 7, weight fc1.bias, rank 0");
  EXPECT_FALSE(red.worker.made("another_state"));
}

TEST(OneState, ShowsAMistakeThatTheBoundOnManyStepsHides) {
  const Json late = planted("loss_factor", 7, {{"factor", 1 + 0x1p-16}});
  const Investigated red(pair("equal", with_rmsprop(1), merged({with_rmsprop(3), late})));
  EXPECT_EQ(red.check().status, judge::Status::kDivergence);
  EXPECT_EQ(red.at().step, 7) << red.told();
  EXPECT_EQ(red.at().class_, Class::kSemantic) << red.told();
}

TEST(OneState, IsThatOfTrainingsThatBeginFromACheckpoint) {
  const Json restore = {"weights", "optimizer", "schedule", "sampler"};
  const Json loads = train("checkpoint", {{"load", {{"from", "saved"}, {"restore", restore}}}});
  const auto judged = [&](const Json& fault) {
    Json three = pair("rounding", merged({with_rmsprop(1), loads}), merged({with_rmsprop(3), loads, fault}));
    three["variants"]["saved"] = merged({with_rmsprop(2), train("steps", 2), train("checkpoint", {{"save_after", 2}})});
    return three;
  };
  const Investigated green(judged(kNone));
  expect_agreement(green, "");
  const Investigated red(judged(decayed()));
  expect_found(red, "step_differs_again", kPlace);
}

// The first steps from one state are looked at where float64 says that there is a mistake, and end there. With those
// from other weights they have shown it often enough, unless they are of another training than the one that was judged.
TEST(OneState, NeedsNoOtherRunOfWhatIsFoundWhereItWasLookedFor) {
  const Json scaled = planted("gradient_factor", 4, {{"factor", 1 + 0x1p-10}, {"float32_only", true}});
  const Json both = pair("rounding", with_rmsprop(1), merged({with_rmsprop(3), scaled}));
  const Investigated red(both);
  expect_found(red, "step_differs_again", "step 4, gradient fc1.bias, rank 0");
  EXPECT_TRUE(red.at().element) << red.told();
  for (const char* folder : {"one_state_there", "replay_often"}) EXPECT_FALSE(red.worker.made(folder)) << folder;

  const Investigated deviates(both, [](const std::string& where, scenario::Variant& variant) {
    if (where.starts_with("one_state")) variant.train.optimizer.options["lr"] = 0.0101;
  });
  EXPECT_TRUE(deviates.worker.made("one_state_there")) << deviates.told();
  EXPECT_FALSE(deviates.worker.made("replay_often"));
}

TEST(OneState, EndsAtAMistakeThatIsKnown) {
  Investigated red;
  std::int64_t steps = 0;
  red.worker.otherwise = [&](const std::string& where, scenario::Variant& variant) {
    if (where.starts_with("one_state/")) steps = std::max(steps, variant.train.steps);
  };
  const Json scaled = planted("gradient_factor", 4, {{"factor", 1 + 0x1p-10}, {"float32_only", true}});
  red.run(pair("rounding", with_rmsprop(1), merged({with_rmsprop(3), scaled})));
  EXPECT_EQ(steps, 5);  // of eight
}

// A kink of a ReLU moves with the weights.
TEST(OneState, LeavesOpenWhatDisappearsWithOtherWeights) {
  const Json both = pair("rounding", with_rmsprop(1), merged({with_rmsprop(3), decayed()}));
  const Investigated open(both, [](const std::string& where, scenario::Variant& variant) {
    without_mistake_in("another_state", where, variant);
  });
  expect_open(open, "step_differs_once", "disappears with other weights");
  EXPECT_TRUE(shows(open, "one_state", kPlace));
}

TEST(OneState, LeavesOpenWhatDoesNotFinishWithOtherWeights) {
  Investigated open;
  open.worker.dies = [](const std::string& where) {
    return where.starts_with("another_state/") && where.find("+follows+") != std::string::npos;
  };
  open.run(pair("rounding", with_rmsprop(1), merged({with_rmsprop(3), decayed()})));
  expect_open(open, "no_other_weights", "does not finish");
}

/// All weights come from one file, whatever the seed.
TEST(OneState, LeavesOpenWhatHasNoOtherWeights) {
  const Investigated saved(
      small_training({{"variants", {{"main", with_rmsprop(2)}}},
                      {"checks", {check_of("finishes")}},
                      {"train", {{"record", {{"capture", {{{"step", 2}, {"channel", "weight"}}}}}}}}}));
  const auto file = saved.scratch.path() / "runs/tiny/main/0/capture/2/rank0.safetensors";
  ASSERT_TRUE(std::filesystem::exists(file));
  const Json load = {{"file", file.string()}, {"keys", {{"strip", "weight/"}}}, {"restore", {"weights"}}};
  const Json loads = train("checkpoint", {{"load", load}});
  const Investigated open(
      pair("rounding", merged({with_rmsprop(1), loads}), merged({with_rmsprop(3), loads, decayed()})));
  expect_open(open, "no_other_weights", "no other weights");
}

TEST(OneState, LeavesOpenWhatDoesNotFinish) {
  Investigated open;
  open.worker.dies = [](const std::string& where) { return where.starts_with("one_state/tiny/other+follows+one"); };
  open.run(pair("rounding", with_rmsprop(1), merged({with_rmsprop(3), decayed()})));
  expect_open(open, "steps_unfinished", "does not finish when each step starts from the state of one");
}

}  // namespace
}  // namespace lockstep::test
