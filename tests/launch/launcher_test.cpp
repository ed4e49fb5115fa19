#include "harness/launch/launcher.h"

#include <csignal>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/error.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using How = RankExit::How;
using Status = RunOutcome::Status;

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

TEST(Launcher, RankZeroInheritsTheListeningSocket) {
  const Scratch scratch;
  // Rank 0 arrives last and accepts late: the others must be able to connect before it exists.
  Job job =
      scratch.job("socket", 4, {"@0", "accept", "3", "@1", "connect", "@2", "connect", "@3", "connect", "mark", "in"});
  job.arrival_delay_ms = {1000};
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why << outcome.log_tail;
  EXPECT_LT(outcome.ranks[3].after_s, outcome.ranks[0].after_s);
}

TEST(Launcher, DelaysOneRankOnly) {
  const Scratch scratch;
  Job slow = scratch.job("slow", 3, {});
  slow.arrival_delay_ms = {0, 1000};
  const std::vector<RunOutcome> outcomes = run_locally({slow, scratch.job("quick", 1, {})}, 8);
  EXPECT_EQ(outcomes[0].status, Status::kFinished);
  EXPECT_GE(outcomes[0].ranks[1].after_s, 1);
  for (const double other_s : {outcomes[0].ranks[0].after_s, outcomes[0].ranks[2].after_s, outcomes[1].wall_s})
    EXPECT_LT(other_s, outcomes[0].ranks[1].after_s);
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
  Job job = scratch.job("slow", 2, {"@0", "await", "in.1", "@1", "beat", "80", "mark", "in", "report", "80", "done"});
  job.stall_s = 0.5;
  EXPECT_EQ(run_one(job).status, Status::kFinished);
}

TEST(Launcher, MachineThatStoodStillIsNotHung) {
  const Scratch scratch;
  Job job = scratch.job("pause", 1, {"mark", "in", "beat", "50", "report", "50", "done"});
  job.stall_s = 1.5;
  const pid_t supervisor = fork_supervisor([&] { return static_cast<int>(run_one(job).status); });
  const pid_t rank = scratch.pid("pause", "in.0");
  ::kill(rank, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // its last beat has been seen
  ::kill(supervisor, SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(2000));
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
  EXPECT_EQ(outcomes[1].why, "not started: the earlier run 'bad' ended as failed");
  EXPECT_EQ(outcomes[2].status, Status::kSkipped);
  EXPECT_EQ(outcomes[2].why, "not started: the earlier run 'child' ended as skipped");
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

TEST(Launcher, IgnoredChildSignalDoesNotHideTheEnds) {
  const Scratch scratch;
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const RunOutcome outcome = run_one(scratch.job("run", 2, {"@1", "exit", "3"}));
  EXPECT_EQ(::signal(SIGCHLD, before), SIG_IGN);  // put back
  EXPECT_EQ(outcome.culprit, 1);
}

TEST(Launcher, LeaksNothingOverManyRuns) {
  const Scratch scratch;
  const int descriptors = number_of_descriptors(), children = number_of_children();
  for (int i = 0; i < 20; ++i) run_one(scratch.job("run", 2, {"@1", "stray", "@all", "exit", "1"}));
  EXPECT_EQ(number_of_descriptors(), descriptors);
  EXPECT_LE(number_of_children(), children);
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
