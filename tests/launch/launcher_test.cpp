#include "harness/launch/launcher.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <map>
#include <sstream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using How = RankExit::How;
using Status = RunOutcome::Status;

/// NAME=value entries of a block as /proc shows it, in its order.
std::vector<std::string> entries(const std::string& block) {
  std::vector<std::string> found;
  std::istringstream stream(block);
  for (std::string entry; std::getline(stream, entry, '\0');) found.push_back(entry);
  return found;
}

std::vector<std::string> names(const std::vector<std::string>& entries) {
  std::vector<std::string> found;
  for (const std::string& entry : entries) found.push_back(entry.substr(0, entry.find('=')));
  return found;
}

/// What each rank of a job finds in its environment.
std::vector<std::vector<std::string>> environments_of(const Scratch& scratch, Job job) {
  job.command = {"/bin/cat", "/proc/self/environ"};
  EXPECT_EQ(run_one(job).status, Status::kFinished);
  std::vector<std::vector<std::string>> found;
  for (std::int64_t rank = 0; rank < job.world_size; ++rank) {
    found.push_back(entries(scratch.text(job.run, "rank" + std::to_string(rank) + ".log")));
  }
  return found;
}

std::string value_of(const std::vector<std::string>& entries, const std::string& name) {
  for (const std::string& entry : entries) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "(not set)";
}

TEST(Launcher, CleanRunFinishes) {
  const Scratch scratch;
  const RunOutcome outcome =
      run_one(scratch.job("clean", 3, {"print", "hello", "report", "4", "record", "report", "4", "done"}));
  EXPECT_EQ(outcome.run, "clean");
  EXPECT_EQ(outcome.status, Status::kFinished);
  EXPECT_EQ(outcome.culprit, std::nullopt);
  EXPECT_EQ(outcome.why, "");
  EXPECT_EQ(outcome.log_tail, "hello\n");
  ASSERT_EQ(outcome.ranks.size(), 3u);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    const RankExit& exit = outcome.ranks[rank];
    EXPECT_EQ(exit.how, How::kExited);
    EXPECT_EQ(exit.code, 0);
    EXPECT_EQ(exit.progress, (Progress{.step = 4, .phase = Phase::kDone, .beats = 2}));
    EXPECT_EQ(exit.log, scratch.path() / "clean" / ("rank" + std::to_string(rank) + ".log"));
    EXPECT_GT(exit.after_s, 0);
    EXPECT_LE(exit.after_s, outcome.wall_s);
  }
}

TEST(Launcher, RanksStartInTheWorkDirectory) {
  const Scratch scratch;
  Job job = scratch.job("place", 2, {});
  job.command = {"/bin/pwd"};
  job.work_directory = "deep/er";
  EXPECT_EQ(run_one(job).log_tail, (job.directory / "deep/er").string() + "\n");
}

TEST(Launcher, RanksLearnTheirPlace) {
  const Scratch scratch;
  ::setenv("RANK", "17", 1);
  ::setenv("LOCKSTEP_LISTEN_FD", "3", 1);
  const auto ranks = environments_of(scratch, scratch.job("place", 3, {}));
  ::unsetenv("RANK");
  ::unsetenv("LOCKSTEP_LISTEN_FD");
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(value_of(ranks[rank], "RANK"), std::to_string(rank));
    EXPECT_EQ(value_of(ranks[rank], "LOCAL_RANK"), std::to_string(rank));
    EXPECT_EQ(value_of(ranks[rank], "WORLD_SIZE"), "3");
    EXPECT_EQ(value_of(ranks[rank], "LOCAL_WORLD_SIZE"), "3");
    EXPECT_EQ(value_of(ranks[rank], "MASTER_ADDR"), "127.0.0.1");
    EXPECT_EQ(value_of(ranks[rank], "MASTER_PORT"), value_of(ranks[0], "MASTER_PORT"));
    EXPECT_EQ(value_of(ranks[rank], "LOCKSTEP_RUN_ID"), value_of(ranks[0], "LOCKSTEP_RUN_ID"));
    EXPECT_EQ(value_of(ranks[rank], "LOCKSTEP_LISTEN_FD") == "(not set)", rank != 0);
  }
}

TEST(Launcher, EnvironmentIsOursAndTheJobsInOrder) {
  const Scratch scratch;
  ::setenv("LAUNCH_TEST", "ours", 1);
  ::setenv("LAUNCH_TEST_2", "ours", 1);
  Job job = scratch.job("up", 1, {});
  job.environment = {{"LAUNCH_TEST", "the job's"}, {"AAA", ""}, {"zzz", "a=b"}};
  const std::vector<std::string> up = environments_of(scratch, job)[0];
  job = scratch.job("down", 1, {});
  job.environment = {{"LAUNCH_TEST", "the job's"}, {"AAA", ""}, {"zzz", "a=b"}};
  job.reverse_environment = true;
  const std::vector<std::string> down = environments_of(scratch, job)[0];
  ::unsetenv("LAUNCH_TEST");
  ::unsetenv("LAUNCH_TEST_2");

  EXPECT_EQ(value_of(up, "LAUNCH_TEST"), "the job's");
  EXPECT_EQ(value_of(up, "LAUNCH_TEST_2"), "ours");
  EXPECT_EQ(value_of(up, "zzz"), "a=b");
  EXPECT_EQ(value_of(up, "PATH"), ::getenv("PATH"));
  EXPECT_TRUE(std::ranges::is_sorted(names(up)));
  EXPECT_TRUE(std::ranges::is_sorted(names(down), std::greater<>()));
  std::vector<std::string> reversed = names(down);
  std::ranges::reverse(reversed);
  EXPECT_EQ(reversed, names(up));
}

TEST(Launcher, RankZeroInheritsTheListeningSocket) {
  const Scratch scratch;
  // Rank 0 arrives last and accepts late: the others must be able to connect before it exists.
  Job job =
      scratch.job("socket", 4, {"@0", "accept", "3", "@1", "connect", "@2", "connect", "@3", "connect", "mark", "in"});
  job.arrival_delay_ms = {1000};
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why << outcome.log_tail;
  EXPECT_LT(outcome.ranks[3].after_s, 1);
}

TEST(Launcher, DelaysOneRankOnly) {
  const Scratch scratch;
  Job slow = scratch.job("slow", 3, {});
  slow.arrival_delay_ms = {0, 1000};
  const std::vector<RunOutcome> outcomes = run_locally({slow, scratch.job("quick", 1, {})}, 8);
  EXPECT_EQ(outcomes[0].status, Status::kFinished);
  EXPECT_LT(outcomes[0].ranks[0].after_s, 0.9);
  EXPECT_LT(outcomes[0].ranks[2].after_s, 0.9);
  EXPECT_GE(outcomes[0].ranks[1].after_s, 1);
  EXPECT_LT(outcomes[1].wall_s, 0.9);
}

TEST(Launcher, DelayIsNoStall) {
  const Scratch scratch;
  Job job = scratch.job("late", 2, {"@0", "await", "in.1", "@1", "mark", "in"});
  job.arrival_delay_ms = {0, 700};
  job.stall_s = 0.3;
  EXPECT_EQ(run_one(job).status, Status::kFinished);
}

TEST(Launcher, SlowIsNotHung) {
  const Scratch scratch;
  Job job = scratch.job("slow", 2, {"beat", "80", "report", "80", "done"});
  job.stall_s = 0.5;
  EXPECT_EQ(run_one(job).status, Status::kFinished);
}

TEST(Launcher, OneRankThatBeatsKeepsTheRunAlive) {
  const Scratch scratch;
  Job job = scratch.job("slow", 2, {"@0", "await", "in.1", "@1", "beat", "80", "mark", "in"});
  job.stall_s = 0.5;
  EXPECT_EQ(run_one(job).status, Status::kFinished);
}

TEST(Launcher, MachineThatStoodStillIsNotHung) {
  const Scratch scratch;
  Job job = scratch.job("pause", 1, {"mark", "in", "beat", "50"});
  job.stall_s = 0.5;
  const pid_t supervisor = fork_supervisor([&] { return static_cast<int>(run_one(job).status); });
  const pid_t rank = scratch.pid("pause", "in.0");
  ::kill(supervisor, SIGSTOP);
  ::kill(rank, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  ::kill(supervisor, SIGCONT);  // wakes first, and finds that nothing has happened for longer than `stall_s`
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  ::kill(rank, SIGCONT);
  EXPECT_EQ(wait_for(supervisor), static_cast<int>(Status::kFinished));
}

TEST(Launcher, StaleProgressOfAnEarlierRunIsForgotten) {
  const Scratch scratch;
  Job job = scratch.job("again", 1, {"report", "9", "record"});
  EXPECT_EQ(run_one(job).ranks[0].progress.step, 9);
  job.command = {"/bin/true"};
  EXPECT_EQ(run_one(job).ranks[0].progress, Progress{});
}

TEST(Launcher, RunsJobsSideBySideWhenThereIsRoom) {
  const Scratch scratch;
  // Each waits for the other: neither could finish alone.
  const Job a = scratch.job("a", 2, {"mark", "in", "await", "../b/in.0"});
  const Job b = scratch.job("b", 2, {"mark", "in", "await", "../a/in.0"});
  for (const RunOutcome& outcome : run_locally({a, b}, 4)) EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why;
}

TEST(Launcher, RunsJobsInTurnWhenThereIsNoRoom) {
  const Scratch scratch;
  // Each fails if the other one runs: it would find the mark that the other takes away at its end.
  const auto job = [&](const std::string& run) {
    Job made = scratch.job(run, 2, {});
    made.command = {"/bin/sh", "-c",
                    "if [ $RANK = 0 ]; then mkdir ../../busy && sleep 0.1 && rmdir ../../busy; else sleep 0.05; fi"};
    return made;
  };
  for (const int room : {3, 2, 1, 0}) {
    for (const RunOutcome& outcome : run_locally({job("a"), job("b"), job("c")}, room)) {
      EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why << outcome.log_tail;
    }
  }
}

TEST(Launcher, DependentJobStartsAfterItsPredecessor) {
  const Scratch scratch;
  Job second = scratch.job("second", 1, {});
  second.command = {"/bin/sh", "-c", "test -e ../../first/end.0"};
  second.after = {1};  // also when it stands later in the list
  const Job first = scratch.job("first", 1, {"sleep", "100", "mark", "end"});
  for (const RunOutcome& outcome : run_locally({second, first}, 8)) EXPECT_EQ(outcome.status, Status::kFinished);
}

TEST(Launcher, DependentJobsAreSkippedAfterAFailure) {
  const Scratch scratch;
  const Job bad = scratch.job("bad", 1, {"exit", "1"});
  Job child = scratch.job("child", 2, {"mark", "in"});
  child.after = {0};
  Job grandchild = scratch.job("grandchild", 1, {});
  grandchild.after = {1};
  const std::vector<RunOutcome> outcomes = run_locally({bad, child, grandchild, scratch.job("other", 1, {})}, 8);
  EXPECT_EQ(outcomes[0].status, Status::kFailed);
  EXPECT_EQ(outcomes[1].status, Status::kSkipped);
  EXPECT_EQ(outcomes[1].why, "not started, because run 'bad', which it comes after, ended as failed");
  EXPECT_EQ(outcomes[2].status, Status::kSkipped);
  EXPECT_EQ(outcomes[2].why, "not started, because run 'child', which it comes after, ended as skipped");
  EXPECT_EQ(outcomes[3].status, Status::kFinished);
  EXPECT_FALSE(std::filesystem::exists(child.directory / "in.0"));
}

TEST(Launcher, CircleOfJobsIsAnError) {
  const Scratch scratch;
  Job job = scratch.job("circle", 1, {});
  job.after = {0};
  EXPECT_THROW(run_locally({job}, 1), InternalError);
}

TEST(Launcher, MissingCommandIsRefusedBeforeAnythingStarts) {
  const Scratch scratch;
  for (const std::string command : {"/nowhere/worker", "/tmp", "/etc/passwd", ""}) {
    Job bad = scratch.job("bad", 1, {});
    bad.command = {command};
    const Job good = scratch.job("good", 1, {"mark", "in"});
    try {
      run_locally({good, bad}, 8);
      ADD_FAILURE() << command;
    } catch (const InputError& error) {
      EXPECT_EQ(error.problem().what, "the command of run 'bad' cannot be executed");
      EXPECT_EQ(error.problem().where, command);
      EXPECT_NE(error.problem().next, "");
    }
    EXPECT_FALSE(std::filesystem::exists(good.directory / "in.0"));
  }
  Job none = scratch.job("none", 1, {});
  none.command = {};
  EXPECT_THROW(run_one(none), InputError);
}

TEST(Launcher, RelativeCommandMeansOurDirectoryNotTheRanks) {
  const Scratch scratch;
  Job job = scratch.job("relative", 1, {});
  job.command = {std::filesystem::relative("/bin/pwd").string()};
  EXPECT_EQ(run_one(job).log_tail, (job.directory / "work").string() + "\n");
}

TEST(Launcher, IgnoredChildSignalDoesNotHideTheEnds) {
  const Scratch scratch;
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const RunOutcome outcome = run_one(scratch.job("run", 2, {"@1", "exit", "3"}));
  EXPECT_EQ(::signal(SIGCHLD, before), SIG_IGN);  // put back
  EXPECT_EQ(outcome.culprit, 1);
}

TEST(Launcher, LeaksNothingOverManyRuns) {
  const Scratch scratch;
  const int descriptors = number_of_descriptors();
  for (int i = 0; i < 20; ++i) run_one(scratch.job("run", 2, {"@1", "stray", "@all", "exit", "1"}));
  EXPECT_EQ(number_of_descriptors(), descriptors);
  EXPECT_EQ(number_of_children(), 0);
}

TEST(Launcher, SupervisesWhileOtherProcessesComeAndGo) {
  const Scratch scratch;
  Job busy = scratch.job("busy", 1, {});
  busy.command = {"/bin/sh", "-c", "for i in $(seq 300); do /bin/true; done"};
  std::vector<Job> jobs = {busy};
  for (int i = 0; i < 30; ++i) jobs.push_back(scratch.job("run" + std::to_string(i), 1, {"stray"}));
  for (const RunOutcome& outcome : run_locally(jobs, 3)) EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why;
}

TEST(Launcher, EveryStatusHasItsName) {
  EXPECT_EQ(name_of(Status::kFinished), "finished");
  EXPECT_EQ(name_of(Status::kHung), "hung");
  EXPECT_EQ(name_of(Status::kInterrupted), "interrupted");
}

}  // namespace
}  // namespace lockstep::launch
