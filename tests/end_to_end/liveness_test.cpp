// A rank that dies, leaves or hangs is a divergence with a culprit, a step and a reason, within seconds.
#include <random>

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

/// Sooner than any time that lockstep would wait for a rank that hangs (launch.stall_s is 60 where nothing sets it).
constexpr double kSoon_s = 55;

/// Phases in which a rank can stand while all others stand in a later one.
const char* const kPhasesBeforeCollectives[] = {"data", "forward", "optimizer"};
const char* const kPhases[] = {"data", "forward", "backward", "optimizer"};

class LivenessEndToEnd : public EndToEnd {
 protected:
  static Json training(int world_size, const Json& fault) {
    return scenario({{"world_size", world_size},
                     {"train", {{"faults", Json::array({fault})}}},
                     {"checks", Json::array({check("ledger")})}});
  }

  /// The failed run of a result that must be a liveness divergence of this rank.
  static Json expect_culprit(const Result& result, int rank) {
    EXPECT_EQ(result.exit_code(), 1) << result.said();
    EXPECT_LT(result.wall_s, kSoon_s);
    Json run = result.failed_run();
    if (run.is_null()) return {{"why", ""}, {"outcome", ""}};
    EXPECT_EQ(run.at("status"), "divergence") << run.dump(1);
    EXPECT_EQ(run.at("class"), "liveness") << run.dump(1);
    EXPECT_EQ(run.at("culprit_rank"), rank) << run.dump(1);
    EXPECT_EQ(result.check("ledger").at("status"), "inconclusive");
    return run;
  }

  /// Kills one rank at a step that the seed chooses, in every phase.
  void expect_kills_are_found(int world_size, unsigned seed) {
    std::mt19937 random(seed);
    for (const char* phase : kPhases) {
      const int step = static_cast<int>(random() % 4),
                rank = static_cast<int>(random() % static_cast<unsigned>(world_size));
      SCOPED_TRACE("rank " + std::to_string(rank) + " at step " + std::to_string(step) + " in " + phase);
      const Json run =
          expect_culprit(this->run(training(world_size, fault("kill", step, rank, {{"phase", phase}}))), rank);
      expect_says(run.at("why"), {"rank " + std::to_string(rank) + " ", "SIGKILL", "step " + std::to_string(step),
                                  std::string("in ") + phase});
    }
  }
};

/// As DistributedDataParallel does, before it broadcasts anything.
TEST_F(LivenessEndToEnd, RanksWithOtherParametersAreRefusedByName) {
  const auto worker = script_worker(
      "case $RANK in 1) sed -z 's/\"hidden\": \\[[^]]*\\]/\"hidden\": [9]/' $spec > $spec.1; spec=$spec.1;; esac\n"
      "exec $worker --spec $spec --out $out");
  const Result result = run(scenario(), {"--worker", worker});
  EXPECT_EQ(result.exit_code(), 1) << result.said();
  expect_says(result.said(), {"appears not to match sizes of the same param in process 0"});
}

TEST_F(LivenessEndToEnd, ASingleRankKilled) { expect_kills_are_found(1, 4); }
TEST_F(LivenessEndToEnd, OneOfTwoRanksKilled) {
  for (const unsigned seed : {1U, 2U}) expect_kills_are_found(2, seed);
}
TEST_F(LivenessEndToEnd, OneOfThreeRanksKilled) {
  for (const unsigned seed : {5U, 6U}) expect_kills_are_found(3, seed);
}
TEST_F(LivenessEndToEnd, OneOfFourRanksKilled) {
  for (const unsigned seed : {8U, 9U}) expect_kills_are_found(4, seed);
}

TEST_F(LivenessEndToEnd, TwoRanksKilledTogether) {
  Json both = training(3, fault("kill", 2, 1));
  both["train"]["faults"].push_back(fault("kill", 2, 2));
  const Result red = run(both);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  const Json culprit = red.failed_run().at("culprit_rank");
  EXPECT_TRUE(culprit == 1 || culprit == 2) << culprit;
}

TEST_F(LivenessEndToEnd, ARankThatExits) {
  for (const int code : {1, 2, 7, 77, 125}) {
    SCOPED_TRACE(code);
    const Json run = expect_culprit(this->run(training(3, fault("exit", 1, 2, {{"code", code}}))), 2);
    expect_says(run.at("why"), {"rank 2 exited with code " + std::to_string(code), "at step 1 in forward"});
  }
}

/// The first to go, though its code says that all is well, and the others' codes do not.
TEST_F(LivenessEndToEnd, ARankThatLeavesEarlyWithCodeZero) {
  const Json run = expect_culprit(this->run(training(3, fault("exit", 1, 2, {{"code", 0}}))), 2);
  expect_says(run.at("why"), {"rank 2"});
}

TEST_F(LivenessEndToEnd, ASingleRankThatLeavesEarlyWithCodeZero) {
  const Json run = expect_culprit(this->run(training(1, fault("exit", 1, 0, {{"code", 0}}))), 0);
  expect_says(run.at("why"), {"rank 0 exited with code 0 at step 1 in forward"});
}

TEST_F(LivenessEndToEnd, AllRanksLeaveEarlyWithCodeZero) {
  Json both = training(2, fault("exit", 1, 0, {{"code", 0}}));
  both["train"]["faults"].push_back(fault("exit", 1, 1, {{"code", 0}}));
  const Result red = run(both);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.failed_run().at("class"), "liveness");
  expect_says(red.failed_run().at("why"), {"exited with code 0 at step 1 in forward"});
}

/// Nobody is lost and nothing diverges where the machine has no interface, descriptor or memory for a rank.
TEST_F(LivenessEndToEnd, AMachineThatGivesOutIsNoLostPeer) {
  const auto with = [this](const std::string& what) {
    const Result result = run(scenario(), {"--worker", script_worker(what + "\nexec $worker \"$@\"")});
    EXPECT_EQ(result.exit_code(), 4) << result.said();
    expect_says(result.failed_run().at("why"), {"exited with code 4", "a file is damaged, or memory or disk ran out"});
    EXPECT_EQ(result.said().find("frame #"), std::string::npos) << result.said();
  };
  with("ulimit -n 20");
}

/// Before any rank starts, or, of a rank with another environment or machine than ours, before it meets the others.
TEST_F(LivenessEndToEnd, ANetworkInterfaceThatIsNotThereIsRefused) {
  const std::vector<std::string> parts = {"GLOO_SOCKET_IFNAME names no interface of this machine: 'nowhere0'", "lo"};
  const Result ours = run(scenario({{"launch", {{"environment", {{"GLOO_SOCKET_IFNAME", "lo,nowhere0"}}}}}}));
  EXPECT_EQ(ours.exit_code(), 2) << ours.said();
  expect_says(ours.said(), parts);
  EXPECT_FALSE(std::filesystem::exists(ours.out / "tiny/main/0/rank0.log"));
  const std::filesystem::path worker = script_worker("export GLOO_SOCKET_IFNAME=nowhere0\nexec $worker \"$@\"");
  const Result theirs = run(scenario(), {"--worker", worker});
  EXPECT_EQ(theirs.exit_code(), 2) << theirs.said();
  expect_says(theirs.said(), parts);
  expect_says(theirs.failed_run().at("why"), {"exited with code 2 (RunSpec or environment refused)"});
  expect_green(run(scenario({{"launch", {{"environment", {{"GLOO_SOCKET_IFNAME", "lo"}}}}}})));
}

TEST_F(LivenessEndToEnd, ARankThatHangs) {
  for (const char* phase : kPhasesBeforeCollectives) {
    SCOPED_TRACE(phase);
    Json hanging = training(2, fault("hang", 2, 1, {{"phase", phase}}));
    hanging["launch"] = {{"stall_s", 5}};
    const Result red = run(hanging);
    EXPECT_EQ(red.exit_code(), 1) << red.said();
    EXPECT_GE(red.wall_s, 5);
    const Json run = expect_culprit(red, 1);
    EXPECT_EQ(run.at("outcome"), "hung");
    expect_says(run.at("why"), {"rank 1 made no progress for 5 s", "at step 2 in " + std::string(phase)});
  }
}

/// The others wait for it in the same phase, in collectives that it has not issued: in backward for the buckets, in the
/// second forward for the new layout of the buckets.
TEST_F(LivenessEndToEnd, ARankThatHangsWhereTheOthersWait) {
  for (const auto& [step, phase, rank] :
       {std::tuple{2, "backward", 1}, std::tuple{0, "backward", 0}, std::tuple{1, "forward", 2}}) {
    Json hanging = training(3, fault("hang", step, rank, {{"phase", phase}}));
    hanging["launch"] = {{"stall_s", 5}};
    const Json run = expect_culprit(this->run(hanging), rank);
    expect_says(run.at("why"), {"rank " + std::to_string(rank) + " made no progress for 5 s",
                                "at step " + std::to_string(step) + " in " + phase, "while the others waited in"});
  }
}

TEST_F(LivenessEndToEnd, ARankThatHangsAmongFour) {
  Json hanging = training(4, fault("hang", 3, 2, {{"phase", "forward"}}));
  hanging["launch"] = {{"stall_s", 5}};
  expect_culprit(run(hanging), 2);
}

TEST_F(LivenessEndToEnd, DeadlineEndsARunThatIsTooSlow) {
  Json slow = training(2, fault("hang", 2, 0));
  slow["launch"] = {{"deadline_s", 5}, {"stall_s", 100}};
  const Json run = expect_culprit(this->run(slow), 0);
  expect_says(run.at("why"), {"did not finish within 5 s"});
}

TEST_F(LivenessEndToEnd, OneFailedRepeatIsEnough) {
  Json repeated = scenario({{"repeats", 2}, {"checks", Json::array({check("repeatable")})}});
  const auto worker = script_worker("case $spec in */1/run.json) kill -9 $$;; esac\nexec $worker \"$@\"");
  const Result red = run(repeated, {"--worker", worker});
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_EQ(red.failed_run().at("run"), "tiny/main/1");
  EXPECT_EQ(red.check("repeatable").at("status"), "inconclusive");
}

TEST_F(LivenessEndToEnd, ADelayedRankIsNoFailure) {
  Json late = scenario({{"world_size", 3}, {"launch", {{"arrival_delay_ms", {0, 5500, 10}}, {"stall_s", 5}}}});
  const Result green = run(late);
  expect_green(green);
  EXPECT_GE(green.wall_s, 5.5) << "nobody waited for longer than stall_s";
}

}  // namespace
}  // namespace lockstep::test
