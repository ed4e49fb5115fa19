// What a resumed training forgot, and who loaded, shows at the first step after the checkpoint.
#include "harness/trace/reader.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class ResumeEndToEnd : public EndToEnd {
 protected:
  /// Six straight updates, three that save, and a resumed run that restores everything but `forgotten`.
  static Json resuming(const std::string& forgotten) {
    Json restore = Json::array();
    for (const char* part : {"weights", "optimizer", "ema", "schedule", "sampler", "rng", "buckets", "buffers"}) {
      if (part != forgotten) restore.push_back(part);
    }
    const Json load = {{"from", "half"}, {"restore", restore}};
    return scenario(
        {{"train", {{"steps", 6}, {"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}}},
         {"variants",
          {{"straight", Json::object()},
           {"half", {{"train", {{"steps", 3}, {"checkpoint", {{"save_after", 3}}}}}}},
           {"resumed", at("train.checkpoint.load", load)}}},
         {"checks", Json::array({check("resumes", {{"straight", "straight"}, {"interrupted", "resumed"}})})}});
  }

  void expect_red(const std::string& forgotten, const Place& place) {
    const Result red = run(resuming(forgotten));
    EXPECT_EQ(red.exit_code(), 1) << red.said();
    expect_divergence(red.check("resumes"), place);
    expect_says(red.check("resumes").at("explanation"), {"the resumed training differs from the uninterrupted one"});
  }
};

TEST_F(ResumeEndToEnd, EverythingRestoredIsGreen) { expect_green(run(resuming("nothing"))); }

/// The first update is special: after it DDP assigns its buckets anew.
TEST_F(ResumeEndToEnd, EverySavePositionIsGreenOnThreeRanks) {
  for (const int position : {1, 2, 5}) {
    Json training = resuming("nothing");
    training["world_size"] = 3;
    training["train"]["model"] = {{"kind", "lenet"}};
    training["variants"]["half"]["train"] = {{"steps", position}, {"checkpoint", {{"save_after", position}}}};
    expect_green(run(training));
  }
}

/// A sampler that draws its order from the default generator, saved in the second epoch and in the midst of the third.
TEST_F(ResumeEndToEnd, AnOrderDrawnFromTheDefaultGeneratorIsHadAgain) {
  for (const int position : {4, 8}) {
    Json training = resuming("nothing");
    merge_json(training, {{"train", {{"steps", 12}, {"sampler", {{"kind", "none"}}}, {"data", {{"size", 36}}}}}});
    training["variants"]["half"]["train"] = {{"steps", position}, {"checkpoint", {{"save_after", position}}}};
    const Result green = run(training);
    expect_green(green);
    EXPECT_GE(green.check("resumes").at("records_compared"), 100);
  }
}

/// Dropout, Adam, a schedule with a memory, averages, scaled losses, an epoch that ends within an update: at every
/// world size, saved after the first update, within an epoch, at its end, and in the next one.
TEST_F(ResumeEndToEnd, EverythingOnIsGreenOnEveryWorldSize) {
  for (const int world_size : {1, 2, 3, 4}) {
    SCOPED_TRACE(world_size);
    Json training = resuming("nothing");
    training["world_size"] = world_size;
    training["train"]["model"] = {{"kind", "resnet"}, {"widths", {4}}};
    training["train"]["data"] = {{"kind", "synthetic"}, {"size", 12 * world_size * 2}};
    training["train"]["batch"] = {{"per_rank", 6}, {"accumulation", 2}};
    training["train"]["optimizer"] = {{"kind", "adamw"}, {"lr", 0.01}, {"amsgrad", true}};
    training["train"]["schedule"] = {
        {"kind", "plateau"}, {"patience", 0}, {"factor", 0.5}, {"threshold", 0.1}, {"cooldown", 2}};
    training["train"]["gradient"] = {{"clip_norm", 0.5}, {"loss_scale", 3}};
    training["train"]["ema"] = {{"decay", 0.9}};
    training["train"]["sampler"] = {{"kind", "distributed"}, {"set_epoch", "iteration"}};
    training["train"]["steps"] = 8;
    training["variants"]["half"]["train"] = {{"steps", 6}, {"checkpoint", {{"save_every", 1}}}};
    const Json resumed = training["variants"]["resumed"];
    training["variants"].erase("resumed");
    training["checks"] = Json::array();
    for (const int position : {1, 3, 4, 6}) {
      const std::string name = "after-" + std::to_string(position);
      training["variants"][name] = resumed;
      training["variants"][name]["train"]["checkpoint"]["load"]["number"] = position;
      training["checks"].push_back(check("resumes", {{"straight", "straight"}, {"interrupted", name}}));
    }
    expect_green(run(training));
  }
}

/// Three updates without a better loss lower the rate: one before the checkpoint, two behind it.
TEST_F(ResumeEndToEnd, APlateauGoesOnWaiting) {
  Json training = resuming("nothing");
  training["train"]["schedule"] = {{"kind", "plateau"}, {"patience", 2}, {"factor", 0.5}, {"threshold", 0.9}};
  training["variants"]["half"]["train"] = {{"steps", 2}, {"checkpoint", {{"save_after", 2}}}};
  const Result green = run(training);
  expect_green(green);
  const trace::Trace trace = trace::read_trace(green.out / "tiny/straight/0/rank0.jsonl");
  const auto rate = [&](std::size_t line) {
    return trace.steps[line].find(trace::Channel::kLedger, "learning_rate")->number;
  };
  EXPECT_EQ(rate(4), rate(1)) << "lowered too early to show what was waited for";
  EXPECT_LT(rate(5), rate(1)) << "never lowered";
}

/// Updates that are skipped, because scaled gradients overflow, are counted on.
TEST_F(ResumeEndToEnd, SkippedUpdatesAreCountedOn) {
  Json training = resuming("nothing");
  training["train"]["optimizer"] = {{"kind", "sgd"}, {"lr", 1e10}};
  training["train"]["gradient"] = {{"loss_scale", 1e30}};
  training["train"]["steps"] = 8;
  const Result green = run(training);
  expect_green(green);
  const trace::Trace trace = trace::read_trace(green.out / "tiny/straight/0/rank0.jsonl");
  EXPECT_GT(trace.steps[3].find(trace::Channel::kLedger, "skipped")->integers[0], 0) << "none before the checkpoint";
}

/// Interrupted twice: what a resumed training saves is as good as what a straight one does.
TEST_F(ResumeEndToEnd, AResumedTrainingIsResumed) {
  Json training = resuming("nothing");
  training["variants"]["half"]["train"] = {{"steps", 2}, {"checkpoint", {{"save_after", 2}}}};
  training["variants"]["again"] = training["variants"]["resumed"];
  merge_json(training["variants"]["resumed"], {{"train", {{"steps", 4}, {"checkpoint", {{"save_after", 4}}}}}});
  training["variants"]["again"]["train"]["checkpoint"]["load"]["from"] = "resumed";
  training["checks"] =
      Json::array({check("resumes", {{"straight", "straight"}, {"interrupted", "again"}}), check("ledger")});
  expect_green(run(training));
  training["variants"]["half"]["train"]["checkpoint"]["load"] = {{"from", "resumed"}};
  const Result circle = run(training);
  EXPECT_EQ(circle.exit_code(), 2) << circle.said();
  expect_says(circle.said(), {"in a circle", "half from resumed from half"});
}

TEST_F(ResumeEndToEnd, ACheckpointFromBeforeTheResumptionIsNone) {
  Json training = resuming("nothing");
  training["variants"]["again"] = training["variants"]["resumed"];
  merge_json(training["variants"]["resumed"], {{"train", {{"checkpoint", {{"save_every", 3}}}}}});
  training["variants"]["again"]["train"]["checkpoint"]["load"].update({{"from", "resumed"}, {"number", 3}});
  const Result refused = run(training);
  EXPECT_EQ(refused.exit_code(), 2) << refused.said();
  expect_says(refused.said(), {"never saved", "variant 'again'"});
}

TEST_F(ResumeEndToEnd, AveragesLost) {
  Json training = resuming("ema");
  training["train"]["ema"] = {{"decay", 0.9}};
  const Result red = run(training);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_divergence(red.check("resumes"), {2, "ema", "fc1.weight", 0});
}

TEST_F(ResumeEndToEnd, AveragesThatNobodySavedAreNotRestored) {
  Json training = resuming("nothing");
  training["variants"]["resumed"]["train"]["ema"] = {{"decay", 0.9}};
  training["variants"]["straight"]["train"]["ema"] = {{"decay", 0.9}};
  const Result refused = run(training);
  EXPECT_EQ(refused.exit_code(), 2) << refused.said();
  expect_says(refused.said(), {"no averaged weights", "restore"});
}

/// An optimizer brings the rates that it was saved with, and its hyperparameters.
TEST_F(ResumeEndToEnd, ARestoredOptimizerBringsItsRate) {
  Json training = resuming("schedule");
  merge_json(training["variants"]["resumed"], at("train.optimizer.lr", 0.3));
  const Result result = run(training);
  const trace::Trace trace = trace::read_trace(result.out / "tiny/resumed/0/rank0.jsonl");
  const auto rate = [&](std::size_t line) {
    return trace.steps.at(line).find(trace::Channel::kLedger, "learning_rate")->number;
  };
  EXPECT_EQ(rate(1), 0.05) << "halved once before the checkpoint";
  EXPECT_EQ(rate(3), 0.025) << "and after two steps of a schedule that began anew";
}

TEST_F(ResumeEndToEnd, TheStateOfAnotherOptimizerIsRefused) {
  Json training = resuming("schedule");
  training["variants"]["resumed"]["train"]["optimizer"] = {{"kind", "adam"}, {"lr", 0.1}};
  const Result refused = run(training);
  EXPECT_EQ(refused.exit_code(), 2) << refused.said();
  expect_says(refused.said(), {"belongs to another optimizer", "adam", "sgd"});
}

/// Scripts save rank 0's running means only; the other ranks' differ until DDP broadcasts them.
TEST_F(ResumeEndToEnd, BuffersOfTheOtherRanksLost) {
  Json training = resuming("buffers");
  training["train"]["model"] = {{"kind", "resnet"}, {"widths", {4}}};
  const Result red = run(training);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_divergence(red.check("resumes"), {2, "buffer", "bn1.running_mean", 1});
}

/// At three ranks DDP's first buckets are others than those that it had rebuilt: rounding, with its reason.
TEST_F(ResumeEndToEnd, BucketsLost) {
  Json training = resuming("buckets");
  training["world_size"] = 3;
  training["train"]["model"] = {{"kind", "lenet"}};
  const Result red = run(training);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.check("resumes").at("class"), "rounding") << red.check("resumes").dump(1);
  expect_says(red.check("resumes").at("explanation"), {"restore leaves out: buckets"});
}

TEST_F(ResumeEndToEnd, MomentumLost) { expect_red("optimizer", {2, "optimizer", "fc1.weight.momentum_buffer", 0}); }
TEST_F(ResumeEndToEnd, SamplerPositionLost) { expect_red("sampler", {3, "samples", "ids", 0}); }
TEST_F(ResumeEndToEnd, WeightsLost) { expect_red("weights", {2, "weight", "fc1.weight", 0}); }
TEST_F(ResumeEndToEnd, GeneratorsLost) {
  Json training = resuming("rng");
  merge_json(training, at("train.sampler", {{"kind", "none"}}));  // draws from the default generator
  const Result red = run(training);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_divergence(red.check("resumes"), {2, "rng", "cpu", 0});
}

/// Whatever the sampler draws from is in the checkpoint.
TEST_F(ResumeEndToEnd, EverySamplersOrderGoesOn) {
  for (const char* kind :
       {"distributed", "contiguous", "none", "stream", "libtorch", "elastic", "accelerate", "dispatch"}) {
    for (const int world_size : {1, 3}) {
      SCOPED_TRACE(std::string(kind) + " on " + std::to_string(world_size));
      Json training = resuming("nothing");
      training["world_size"] = world_size;
      training["train"]["sampler"] = {{"kind", kind}};
      training["variants"].erase("half");  // the straight training saves, too
      training["variants"]["straight"]["train"]["checkpoint"]["save_after"] = 3;
      training["variants"]["resumed"]["train"]["checkpoint"]["load"]["from"] = "straight";
      expect_green(run(training));
    }
  }
}

/// Shares of 16, 16 and 15 samples: each rank has a place of its own, in an epoch, at its end and behind it.
TEST_F(ResumeEndToEnd, UnequalSharesGoOn) {
  const Json uneven = {
      {"world_size", 3},
      {"train",
       {{"data", {{"size", 47}}}, {"sampler", {{"kind", "accelerate"}, {"even_batches", false}}}, {"steps", 9}}}};
  for (const int updates : {3, 4, 5, 8}) {
    SCOPED_TRACE(updates);
    Json training = resuming("nothing");
    training.merge_patch(uneven);
    training["train"]["batch"] = {{"per_rank", 4}};
    training["variants"]["half"]["train"]["steps"] = updates;
    training["variants"]["half"]["train"]["checkpoint"] = {{"save_after", updates}};
    training["checks"].push_back(check("ledger"));
    const Result green = run(training);
    expect_green(green);
    const auto samples = [&](const std::string& rank) {
      const trace::Trace trace = trace::read_trace(green.out / "tiny/straight/0" / ("rank" + rank + ".jsonl"));
      return trace.steps[4].find(trace::Channel::kSamples, "ids")->integers.size();  // the epoch's last update
    };
    EXPECT_EQ(samples("0"), 4U);
    EXPECT_EQ(samples("2"), 3U);
  }
}

/// A training that does not resume its counter starts again at update 0, which is no statement about update 3.
TEST_F(ResumeEndToEnd, ScheduleLost) {
  const Result red = run(resuming("schedule"));
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.check("resumes").at("status"), "divergence");
}

/// A checkpoint that was changed between save and load is lost evidence, not a divergence.
TEST_F(ResumeEndToEnd, ADamagedCheckpointIsNamed) {
  const std::pair<const char*, const char*> damages[] = {
      {"sed -i 's/\"updates\": 3/\"updates\": 2/' $saved/state.json", "state.json"},
      {"sed -i 's/\"position\": [0-9]*/\"position\": -5/' $saved/state.json", "state.json"},
      {"rm -f $saved/state.json", "state.json"},
      {"rm -f $saved/../last_checkpoint", "last_checkpoint"},
      {"echo 4 > $saved/../last_checkpoint", "last_checkpoint"},
      {"printf '../3' > $saved/../last_checkpoint", "last_checkpoint"},
      {"rm -f $saved/optimizer.safetensors", "optimizer.safetensors"}};
  for (const auto& [damage, file] : damages) {
    SCOPED_TRACE(damage);
    const auto worker = script_worker("saved=$out/../../half/0/checkpoint/3\ncase $spec in */resumed/*) " +
                                      std::string(damage) + ";; esac\nexec $worker \"$@\"");
    const Result result = run(resuming("nothing"), {"--worker", worker});
    EXPECT_EQ(result.exit_code(), 4) << result.said();
    expect_says(result.said(), {"half/0/checkpoint/", file});
  }
}

Json loading(const std::string& who, const std::string& when) {
  const Json load = {{"from", "before"}, {"restore", {"weights"}}, {"who", who}, {"when", when}};
  return {
      {"world_size", 3},
      {"variants", {{"before", at("train.checkpoint.save_after", 2)}, {"after", at("train.checkpoint.load", load)}}},
      {"checks", Json::array({check("ranks_agree", {{"variants", {"after"}}})})}};
}

TEST_F(ResumeEndToEnd, RankZeroAloneLoadsAfterTheWrap) {
  for (const auto& [who, when] :
       {std::pair{"all", "before_wrap"}, std::pair{"all", "after_wrap"}, std::pair{"rank0", "before_wrap"}}) {
    SCOPED_TRACE(std::string(who) + " " + when);
    expect_green(run(scenario(loading(who, when))));
  }
  const Result red = run(scenario(loading("rank0", "after_wrap")));
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_divergence(red.check("ranks_agree"), {-1, "weight", "fc1.weight", 1});
}

/// What does not fit is named with the checkpoint that it comes from.
TEST_F(ResumeEndToEnd, ACheckpointOfAnotherModelIsNamed) {
  const Json other = {{"hidden", {8}}}, deeper = {{"hidden", {16, 10}}};
  const struct {
    const char* part;
    Json train, before, after;  // both variants' training, and what one has of its own
    std::vector<std::string> words;
  } cases[] = {
      {"weights", Json::object(), {{"model", other}}, Json::object(), {"fc1.weight"}},
      {"weights", Json::object(), Json::object(), {{"model", deeper}}, {"lacks tensors", "fc3.weight"}},
      {"optimizer",
       Json::object(),
       {{"model", other}},
       Json::object(),
       {"optimizer state", "fc1.weight.momentum_buffer"}},
      {"ema", {{"ema", {{"decay", 0.9}}}}, Json::object(), {{"model", deeper}}, {"averaged weights", "fc3.weight"}}};
  for (const auto& [part, train, before, after, words] : cases) {
    SCOPED_TRACE(words[0]);
    Json training = scenario(loading("all", "after_wrap"));
    training["train"].merge_patch(train);
    training["variants"]["before"]["train"].merge_patch(before);
    training["variants"]["after"]["train"].merge_patch(after);
    training["variants"]["after"]["train"]["checkpoint"]["load"]["restore"] = {part};
    const Result result = run(training);
    EXPECT_EQ(result.exit_code(), 2) << result.said();
    expect_says(result.said(), {"before/0/checkpoint/2"});
    expect_says(result.said(), words);
  }
}

TEST_F(ResumeEndToEnd, AFileOfAnotherModelIsNamed) {
  const Result saved = run(scenario(at("train.checkpoint.save_after", 2)));
  const auto file = saved.out / "tiny/main/0/checkpoint/2/weights.safetensors";
  Json training = scenario(at("train.checkpoint.load", {{"file", file}, {"restore", {"weights"}}}));
  training["train"]["model"]["hidden"] = {8};
  const Result result = run(training);
  EXPECT_EQ(result.exit_code(), 2) << result.said();
  expect_says(result.said(), {"weights.safetensors", "fc1.weight"});
}

TEST_F(ResumeEndToEnd, DependentsOfAFailedSourceAreNoPasses) {
  Json training = scenario(loading("all", "before_wrap"));
  training["checks"].push_back(check("ledger", {{"variants", {"before"}}}));
  training["variants"]["before"]["train"]["faults"] = {fault("kill", 1, 2)};
  const Result red = run(training);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  ASSERT_EQ(red.json.at("failed_runs").size(), 2U) << red.said();
  const Json& source =
      red.json["failed_runs"][1].at("outcome") == "skipped" ? red.json["failed_runs"][0] : red.json["failed_runs"][1];
  const Json& skipped =
      red.json["failed_runs"][1].at("outcome") == "skipped" ? red.json["failed_runs"][1] : red.json["failed_runs"][0];
  EXPECT_EQ(source.at("class"), "liveness");
  EXPECT_EQ(source.at("culprit_rank"), 2);
  EXPECT_EQ(skipped.at("outcome"), "skipped");
  EXPECT_EQ(skipped.at("status"), "inconclusive");
  expect_says(skipped.at("why"), {"tiny/before/0"});
  for (const Json& check : red.json.at("checks")) EXPECT_EQ(check.at("status"), "inconclusive") << check.dump(1);
}

}  // namespace
}  // namespace lockstep::test
