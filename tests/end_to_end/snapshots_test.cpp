// Which of several checkpoints is loaded, by which rank, and where in the data the training goes on.
#include <algorithm>

#include "harness/trace/reader.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class SnapshotsEndToEnd : public EndToEnd {
 protected:
  /// Twelve straight updates, four an epoch; 'saved' saves after every second; 'resumed' loads as `load` says.
  static Json resuming(const Json& load, const Json& more = Json::object()) {
    Json from = {{"from", "saved"}};
    from.merge_patch(load);
    Json training =
        scenario({{"train", {{"steps", 12}, {"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}}},
                  {"variants",
                   {{"straight", Json::object()},
                    {"saved", {{"train", {{"steps", 10}, {"checkpoint", {{"save_every", 2}}}}}}},
                    {"resumed", at("train.checkpoint.load", from)}}},
                  {"checks", Json::array({check("resumes", {{"straight", "straight"}, {"interrupted", "resumed"}})})}});
    merge_json(training, more);
    return training;
  }

  Json red_check(const Json& training, const std::string& which = "resumes") {
    const Result red = run(training);
    EXPECT_EQ(red.exit_code(), 1) << red.said();
    return red.check(which);
  }
};

TEST_F(SnapshotsEndToEnd, TheNewestOneIsTakenByPointerAndByNumber) {
  for (const char* pick : {"last_checkpoint", "highest_number"}) expect_green(run(resuming({{"pick", pick}})));
  expect_green(run(resuming({{"number", 4}})));
}

TEST_F(SnapshotsEndToEnd, TheLastByNameIsNotTheNewest) {
  const Json red = red_check(resuming({{"pick", "highest_name"}}));
  expect_divergence(red, {7, "ledger", "updates", 0});
  expect_says(red.at("first_divergence").at("expected"), {"10 updates"});
  expect_says(red.at("first_divergence").at("actual"), {"8 updates"});
}

/// One rank lost its disk, another has an older state: all go on from the newest.
TEST_F(SnapshotsEndToEnd, TheRankWithTheNewestGivesItToAll) {
  for (const Json& of_rank : {Json{2, 10, nullptr}, Json{nullptr, nullptr, 10}, Json{10, 10, 10}})
    expect_green(run(resuming({{"of_rank", of_rank}, {"who", "newest"}}, {{"world_size", 3}})));
}

/// Each update of 'b' begins in the state that 'a' had: so does a training that is the same, another rate, and float64.
TEST_F(SnapshotsEndToEnd, EachUpdateBeginsInTheStateOfTheOneThatIsFollowed) {
  const auto following = [](const Json& changes, const std::string& relation) {
    const Json follows = at("train.checkpoint.follow", "a");
    return scenario({{"train", {{"optimizer", {{"kind", "rmsprop"}, {"lr", 0.003}}}, {"ema", {{"decay", 0.9}}}}},
                     {"variants", {{"a", at("train.checkpoint.save_every", 1)}, {"b", merged({follows, changes})}}},
                     {"checks", Json::array({check(relation, {{"variants", {"a", "b"}}})})}});
  };
  expect_green(run(following(Json::object(), "equal")));
  expect_green(run(following({{"world_size", 3}}, "rounding")));
  const Json once = fault("learning_rate_factor", 1, -1, {{"factor", 2}});
  const Result other = run(following(at("train.faults", {once}), "equal"));
  EXPECT_EQ(other.exit_code(), 1) << other.said();
  // What update 1 did otherwise is gone before update 2 begins.
  const auto loss = [&](const char* variant, std::int64_t step) {
    const trace::RunTrace run = trace::read_run(other.out / "tiny" / variant / "0", variant);
    return run.ranks[0].find(step)->find(trace::Channel::kLoss, "reduced")->digest;
  };
  for (const std::int64_t step : {0, 1, 2, 3}) EXPECT_EQ(loss("a", step), loss("b", step)) << step;
}

TEST_F(SnapshotsEndToEnd, AStateThatIsLostCannotBeFollowed) {
  const auto worker =
      script_worker("case $spec in */b/*) rm -rf $out/../../a/0/checkpoint/2;; esac\nexec $worker \"$@\"");
  const Json training =
      scenario({{"variants", {{"a", at("train.checkpoint.save_every", 1)}, {"b", at("train.checkpoint.follow", "a")}}},
                {"checks", Json::array({check("equal", {{"variants", {"a", "b"}}})})}});
  const Result lost = run(training, {"--worker", worker});
  EXPECT_EQ(lost.exit_code(), 4) << lost.said();
  expect_says(lost.said(), {"checkpoint/2/state.json", "is lost"});
}

TEST_F(SnapshotsEndToEnd, AStateIsLoadedInTheTrainingsOwnPrecision) {
  const Json restore = {"weights", "optimizer", "ema", "schedule", "sampler"};
  const Json loads = {
      {"train", {{"precision", "float64"}, {"checkpoint", {{"load", {{"from", "saved"}, {"restore", restore}}}}}}}};
  const Result green = run(scenario({{"train", {{"ema", {{"decay", 0.9}}}}},
                                     {"variants",
                                      {{"saved", {{"train", {{"steps", 2}, {"checkpoint", {{"save_after", 2}}}}}}},
                                       {"a", merged({{{"world_size", 1}}, loads})},
                                       {"b", merged({{{"world_size", 3}}, loads})}}},
                                     {"checks", Json::array({check("rounding", {{"variants", {"a", "b"}}})})}}));
  expect_green(green);
  const trace::RunTrace run = trace::read_run(green.out / "tiny/a/0", "a");
  for (const auto channel : {trace::Channel::kWeight, trace::Channel::kOptimizer, trace::Channel::kEma}) {
    const auto& records = run.ranks[0].steps.front().records;
    const auto of_channel = std::count_if(records.begin(), records.end(), [&](const trace::Record& record) {
      return record.channel == channel && record.dtype == trace::DType::kFloat64;
    });
    EXPECT_GT(of_channel, 0) << trace::name_of(channel);
  }
}

TEST_F(SnapshotsEndToEnd, ALostCheckpointIsNamedByWhoeverPicksIt) {
  const Json picks[] = {
      {{"pick", "highest_number"}}, {{"number", 10}}, {{"of_rank", {10, nullptr}}, {"who", "newest"}}};
  for (const Json& pick : picks) {
    for (const char* lost : {"10", "10/state.json", "*"}) {
      SCOPED_TRACE(pick.dump() + " " + lost);
      const auto worker = script_worker("case $spec in */resumed/*) rm -rf $out/../../saved/0/checkpoint/" +
                                        std::string(lost) + ";; esac\nexec $worker \"$@\"");
      const Result result = run(resuming(pick), {"--worker", worker});
      const bool falls_back = pick.contains("pick") && std::string(lost) == "10";  // to the newest that is left
      EXPECT_EQ(result.exit_code(), falls_back ? 1 : 4) << result.said();
      if (!falls_back) expect_says(result.said(), {"lost", "checkpoint"});
    }
  }
}

TEST_F(SnapshotsEndToEnd, RanksThatLoadTheirOwnPart) {
  const Json load = {{"of_rank", {4, 10}}, {"when", "after_wrap"}, {"restore", {"weights", "optimizer"}}};
  Json training = resuming(load);
  training["checks"] = Json::array({check("ranks_agree", {{"variants", {"resumed"}}})});
  expect_divergence(red_check(training, "ranks_agree"), {-1, "optimizer", "fc1.weight.momentum_buffer", 1});
}

/// Horovod: rank 0 has the file, and sends parameters and optimizer state.
TEST_F(SnapshotsEndToEnd, RankZeroSendsWhatItHas) {
  Json training = resuming({{"who", "rank0"}, {"when", "after_wrap"}, {"restore", {"weights", "optimizer"}}});
  training["checks"] = Json::array({check("ranks_agree", {{"variants", {"resumed"}}})});
  expect_divergence(red_check(training, "ranks_agree"), {-1, "optimizer", "fc1.weight.momentum_buffer", 1});
  training["variants"]["resumed"]["train"]["checkpoint"]["load"]["who"] = "rank0_sends";
  expect_green(run(training));
  expect_green(run(resuming({{"who", "rank0_sends"}})));
}

/// A batch for each worker, of which one is lost: as many samples in each update as there are ranks left.
TEST_F(SnapshotsEndToEnd, FewerWorkersTakeFewerSamples) {
  for (const char* epoch : {"saved", "next", "again"}) {
    for (const int number : {2, 4, 6}) {
      SCOPED_TRACE(std::string(epoch) + ", saved after " + std::to_string(number));
      const Json restore = {"weights", "optimizer", "schedule", "sampler"};
      Json training = resuming({{"number", number}, {"epoch", epoch}, {"restore", restore}});
      training["train"]["batch"] = {{"per_rank", 4}};
      training["variants"]["saved"]["world_size"] = 3;
      training["variants"]["resumed"]["world_size"] = 2;
      training["checks"] = Json::array({check("ledger")});
      expect_green(run(training));
    }
  }
}

/// Nothing is left of an epoch that has ended, however it was dealt out.
TEST_F(SnapshotsEndToEnd, AnEpochsEndIsOneAtEveryWorldSize) {
  for (const char* sampler : {"contiguous", "libtorch", "distributed"}) {
    const Json restore = {"weights", "optimizer", "schedule", "sampler"};
    Json training = resuming({{"number", 4}, {"restore", restore}}, at("train.sampler", {{"kind", sampler}}));
    training["variants"]["saved"]["world_size"] = 4;
    training["variants"]["straight"]["world_size"] = 4;
    training["checks"] = Json::array({check("ledger")});
    expect_green(run(training));
    training["variants"]["resumed"]["train"]["checkpoint"]["load"]["number"] = 6;
    const bool takes_turns = std::string(sampler) == "distributed";
    EXPECT_EQ(run(training).exit_code(), takes_turns ? 0 : 2) << sampler;
  }
}

/// DETR begins the next epoch, whatever it had of the saved one: right at an epoch's end, and there only.
TEST_F(SnapshotsEndToEnd, TheNextEpochIsRightAtTheEndOfOne) {
  expect_green(run(resuming({{"number", 4}, {"epoch", "next"}})));
  const Json by_iteration = at("train.sampler", {{"kind", "distributed"}, {"set_epoch", "iteration"}});
  expect_green(run(resuming({{"number", 8}, {"epoch", "next"}}, by_iteration)));
  expect_divergence(red_check(resuming({{"number", 6}, {"epoch", "next"}})), {6, "samples", "ids", 0});
}

TEST_F(SnapshotsEndToEnd, TheSavedEpochOnceMoreIsNeverRight) {
  for (const int number : {4, 6})
    expect_divergence(red_check(resuming({{"number", number}, {"epoch", "again"}})), {number, "samples", "ids", 0});
}

/// Where the order follows the iterations, the epoch's second time has the order of its first.
TEST_F(SnapshotsEndToEnd, TheSavedEpochOnceMoreHasItsOwnOrder) {
  const Json by_iteration = at("train.sampler", {{"kind", "distributed"}, {"set_epoch", "iteration"}});
  const Result result = run(resuming({{"number", 6}, {"epoch", "again"}}, by_iteration));
  const auto ids = [&](const std::string& variant, std::size_t line) {
    const trace::Trace trace = trace::read_trace(result.out / "tiny" / variant / "0/rank0.jsonl");
    return trace.steps.at(line).find(trace::Channel::kSamples, "ids")->integers;
  };
  EXPECT_EQ(ids("resumed", 1), ids("straight", 5)) << "update 6 begins the epoch that began with update 4";
  EXPECT_NE(ids("straight", 1), ids("straight", 5)) << "all epochs have one order";
}

TEST_F(SnapshotsEndToEnd, ANewScheduleGoesOnAtTheSavedPosition) {
  Json training = resuming({{"schedule", "own"}});
  Json& variants = training["variants"];
  variants["adjusted"] = variants["resumed"];
  variants["adjusted"]["train"]["checkpoint"]["load"]["number"] = 4;
  variants["adjusted"]["train"]["optimizer"] = {{"lr", 0.3}};
  variants["kept"] = variants["adjusted"];
  variants["kept"]["train"]["checkpoint"]["load"]["schedule"] = "saved";
  training["checks"].push_back(check("resumes", {{"straight", "straight"}, {"interrupted", "adjusted"}}));
  for (const char* resumed : {"adjusted", "kept"})
    training["checks"].push_back(check("ledger", {{"variants", {resumed}}}));
  const Result result = run(training);
  EXPECT_EQ(result.exit_code(), 1) << result.said();
  const Json& checks = result.json.at("checks");
  EXPECT_EQ(checks.at(0).at("status"), "agree") << result.said();
  expect_divergence(checks.at(1), {4, "weight", "fc1.weight", 0});
  EXPECT_EQ(checks.at(2).at("status"), "agree") << result.said();
  EXPECT_EQ(checks.at(3).at("status"), "divergence") << "the saved rates are not those of lr 0.3";
}

TEST_F(SnapshotsEndToEnd, APlateauHasNoPositionOfItsOwn) {
  Json training = resuming({{"schedule", "own"}});
  training["train"]["schedule"] = {{"kind", "plateau"}};
  const Result refused = run(training);
  EXPECT_EQ(refused.exit_code(), 2) << refused.said();
  expect_says(refused.said(), {"follows losses", "train.checkpoint.load.schedule"});
}

/// From two ranks to another world size in the midst of an epoch: the same samples in the same updates, and rounding
/// alone besides.
TEST_F(SnapshotsEndToEnd, AnotherWorldSizeGoesOnWithTheSameSamples) {
  const Json load = {{"restore", {"weights", "optimizer", "schedule", "sampler"}}};
  Json training = resuming(load);
  training["variants"].erase("straight");
  training["variants"].erase("resumed");
  training["checks"] = Json::array();
  Json again = training;
  for (const int world_size : {1, 3, 4}) {
    const std::string of = "-on-" + std::to_string(world_size), straight = "straight" + of;
    for (Json* one : {&training, &again}) (*one)["variants"][straight] = {{"world_size", world_size}};
    for (const int number : {4, 6}) {
      const std::string resumed = std::to_string(number) + of;
      Json variant = {{"world_size", world_size}, {"train", {{"checkpoint", {{"load", load}}}}}};
      Json& loads = variant["train"]["checkpoint"]["load"];
      loads.update({{"from", "saved"}, {"number", number}});
      training["variants"][resumed] = variant;
      const Json check_it = check("resumes", {{"straight", straight}, {"interrupted", resumed}});
      training["checks"].push_back(check_it);
      training["checks"].push_back(check("ledger", {{"variants", {resumed}}}));
      if (number == 4 && world_size != 3) continue;  // red once is enough
      loads["epoch"] = "again";
      again["variants"][resumed] = variant;
      again["checks"].push_back(check_it);
    }
  }
  expect_green(run(training));
  const Result red = run(again);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  ASSERT_EQ(red.json.at("checks").size(), 4U);
  const int saved[] = {6, 4, 6, 6};
  for (std::size_t i = 0; i < 4; ++i) expect_divergence(red.json.at("checks")[i], {saved[i], "samples", "ids", 0});
}

/// Rounding hides nothing that is a fault: a lost momentum, a rate that is no more than 1 + 1/1000 of the right one.
TEST_F(SnapshotsEndToEnd, TheStraightRunMayHaveTheSaversWorldSize) {
  Json training = resuming({{"number", 6}, {"restore", {"weights", "optimizer", "schedule", "sampler"}}});
  training["variants"]["resumed"]["world_size"] = 4;
  expect_green(run(training));
  training["variants"]["resumed"]["train"]["faults"] = {{{"kind", "learning_rate_factor"}, {"factor", 1.001}}};
  EXPECT_EQ(red_check(training).at("class"), "semantic");
}

/// 50 samples on each of two ranks, then 34 on each of three: padded, and counted as a straight run counts.
TEST_F(SnapshotsEndToEnd, AnEpochThatDividesOtherwiseIsCountedRight) {
  for (const char* epoch : {"saved", "next"}) {
    Json training =
        resuming({{"number", 10}, {"epoch", epoch}, {"restore", {"weights", "optimizer", "schedule", "sampler"}}});
    training["train"]["data"]["size"] = 100;
    training["train"]["batch"] = {{"global", 30}};
    training["variants"]["saved"]["train"]["steps"] = 10;
    training["train"]["steps"] = 14;
    training["variants"]["saved"]["train"]["checkpoint"] = {{"save_after", 10}};
    training["variants"]["saved"]["train"]["batch"] = {{"global", 20}};  // five updates an epoch
    training["variants"]["resumed"]["world_size"] = 3;
    training["checks"] = Json::array({check("ranks_agree", {{"variants", {"resumed"}}})});
    const Result result = run(training);
    expect_green(result);
    const trace::Trace trace = trace::read_trace(result.out / "tiny/resumed/0/rank0.jsonl");
    EXPECT_EQ(trace.steps[1].find(trace::Channel::kLedger, "samples_taken")->integers[0], 2 * 34 + 10) << epoch;
  }
}

TEST_F(SnapshotsEndToEnd, AnotherWorldSizeStillShowsWhatIsLost) {
  Json training = resuming({{"number", 6}, {"restore", {"weights", "optimizer", "schedule", "sampler"}}});
  Json& variants = training["variants"];
  variants["saved"]["world_size"] = 3;
  variants["lost"] = variants["resumed"];
  variants["lost"]["train"]["checkpoint"]["load"]["restore"] = {"weights", "schedule", "sampler"};
  variants["faster"] = variants["resumed"];
  variants["faster"]["train"]["faults"] = {{{"kind", "learning_rate_factor"}, {"factor", 1.001}}};
  for (const char* resumed : {"lost", "faster"})
    training["checks"].push_back(check("resumes", {{"straight", "straight"}, {"interrupted", resumed}}));
  const Result red = run(training);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  const Json& checks = red.json.at("checks");
  EXPECT_EQ(checks.at(0).at("status"), "agree") << checks;
  expect_divergence(checks.at(1), {5, "optimizer", "fc1.weight.momentum_buffer", 0});
  EXPECT_EQ(checks.at(2).at("class"), "semantic") << checks;
}

TEST_F(SnapshotsEndToEnd, AnotherWorldSizeHasNoPlaceInContiguousBlocks) {
  Json training = resuming({{"number", 6}, {"restore", {"weights", "optimizer", "schedule", "sampler"}}});
  training["train"]["sampler"] = {{"kind", "contiguous"}};
  training["variants"]["resumed"]["world_size"] = 4;
  const Result refused = run(training);
  EXPECT_EQ(refused.exit_code(), 2) << refused.said();
  expect_says(refused.said(), {"does not exist at this world size", "take turns"});
  training["variants"]["resumed"]["train"]["checkpoint"]["load"]["restore"].push_back("rng");
  const Result generators = run(training);
  EXPECT_EQ(generators.exit_code(), 2) << generators.said();
  expect_says(generators.said(), {"another world size", "leave rng"});
}

}  // namespace
}  // namespace lockstep::test
