// Nothing outlives its run, whoever dies first.

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch/attendance.h"
#include "harness/launch/launcher.h"
#include "harness/launch/processes.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using How = RankExit::How;
using Status = RunOutcome::Status;
using std::chrono::milliseconds;

TEST(Orphan, ARankThatBeginsWhenItsSupervisorHasEndedDies) {
  const std::string mine = name_of_this_process(), host = mine.substr(0, mine.rfind(':'));
  const pid_t supervisor = fork_supervisor([] { return 0; });
  wait_for(supervisor);
  const auto end_of_rank_under = [](const std::string& process) {
    return wait_for(fork_supervisor([&] {
      die_with_process(process);
      return 0;
    }));
  };
  EXPECT_EQ(end_of_rank_under(host + ":" + std::to_string(supervisor)), -SIGKILL);
  for (const std::string& process :
       {mine, "elsewhere." + host + ":" + std::to_string(supervisor), std::string("nobody")})
    EXPECT_EQ(end_of_rank_under(process), 0) << process;
}

TEST(Orphan, GrandchildInTheGroupEndsWithACleanRun) {
  const Scratch scratch;
  EXPECT_EQ(run_one(scratch.job("run", 2, {"@1", "child"})).status, Status::kFinished);
  EXPECT_FALSE(alive(scratch.pid("run", "child.1")));
}

TEST(Orphan, GrandchildInItsOwnSessionEndsWithACleanRun) {
  const Scratch scratch;
  EXPECT_EQ(run_one(scratch.job("run", 2, {"@1", "stray"})).status, Status::kFinished);
  EXPECT_FALSE(alive(scratch.pid("run", "child.1")));
}

TEST(Orphan, GrandchildInItsOwnSessionEndsWithAFailedRun) {
  const Scratch scratch;
  EXPECT_EQ(run_one(scratch.job("run", 2, {"stray", "@0", "exit", "1"})).status, Status::kFailed);
  EXPECT_FALSE(alive(scratch.pid("run", "child.0")));
  EXPECT_FALSE(alive(scratch.pid("run", "child.1")));
}

TEST(Orphan, DescendantsOfGrandchildrenEndToo) {
  const Scratch scratch;
  const int before = number_of_children();
  EXPECT_EQ(run_one(scratch.job("run", 1, {"nest"})).status, Status::kFinished);
  EXPECT_FALSE(alive(scratch.pid("run", "child.0")));
  EXPECT_FALSE(alive(scratch.pid("run", "child.1000")));
  EXPECT_LE(number_of_children(), before);
}

/// Another run has to learn how it ended.
TEST(Orphan, TheDeadOfOtherRunsAreNotReaped) {
  const OrphanKeeper keeper;
  const pid_t dead = fork_supervisor([] { return ::setsid() > 0 ? 7 : 1; });
  while (state_of(dead)->letter != 'Z') std::this_thread::sleep_for(milliseconds(1));
  keeper.end_orphans("LOCKSTEP_TEST=nobody");
  EXPECT_EQ(wait_for(dead), 7);
}

/// Each is about to start a program when the run ends, and shows no environment for a moment.
TEST(Orphan, ProcessesThatStartAProgramEndToo) {
  const Scratch scratch;
  Job job = scratch.job("run", 1, {});
  job.command = {"/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do setsid sleep 60 & done"};
  const int before = number_of_children();
  for (int i = 0; i < 5; ++i) run_one(job);
  EXPECT_LE(number_of_children(), before);
}

TEST(Orphan, RunThatEndsLeavesThoseOfOthersAlone) {
  const Scratch scratch;
  const Job first = scratch.job("first", 1, {"await", "../second/child.0", "mark", "end"});
  Job second = scratch.job("second", 1, {});
  // Sees the first run finish, then looks whether its own stray is there still.
  second.command = {"/bin/sh", "-c",
                    "setsid sh -c 'echo $$ > ../s; mv ../s ../child.0; exec sleep 60' & "
                    "until [ -e ../../first/end.0 ]; do sleep 0.01; done; sleep 0.3; kill -0 $(cat ../child.0)"};
  const std::vector<RunOutcome> outcomes = run_locally({first, second}, 8);
  EXPECT_EQ(outcomes[0].status, Status::kFinished);
  EXPECT_EQ(outcomes[1].status, Status::kFinished) << outcomes[1].why << outcomes[1].log_tail;
  EXPECT_FALSE(alive(scratch.pid("second", "child.0")));
}

TEST(Orphan, OurOwnChildrenAreLeftAlone) {
  const Scratch scratch;
  const pid_t mine = fork_supervisor([] { return ::setsid() > 0 && ::pause() ? 0 : 1; });
  const pid_t dead = fork_supervisor([] { return ::setsid() > 0 ? 7 : 1; });
  EXPECT_EQ(run_one(scratch.job("run", 1, {})).status, Status::kFinished);
  EXPECT_TRUE(alive(mine));
  EXPECT_EQ(wait_for(dead), 7);
  ::kill(mine, SIGKILL);
  EXPECT_EQ(wait_for(mine), -SIGKILL);
}

TEST(Orphan, RanksDieWithAKilledSupervisor) {
  const Scratch scratch;
  const Job job = scratch.job("run", 3, {"mark", "in", "hang"});
  const pid_t supervisor = fork_supervisor([&] { return static_cast<int>(run_one(job).status); });
  pid_t ranks[3];
  for (int i = 0; i < 3; ++i) ranks[i] = scratch.pid("run", "in." + std::to_string(i));
  ::kill(supervisor, SIGKILL);
  EXPECT_EQ(wait_for(supervisor), -SIGKILL);
  for (const pid_t rank : ranks) EXPECT_TRUE(gone_within(rank, milliseconds(2000)));
}

/// The system tells the death of a parent to its children only: ranks that a script has started must learn it from us.
TEST(Orphan, RanksOfAScriptDieWithAKilledSupervisor) {
  const Scratch scratch;
  Job job = scratch.job("run", 3, {});
  job.command = {"/bin/sh", "-c", std::string(FAKE_RANK) + " watch mark in hang; true"};
  const pid_t supervisor = fork_supervisor([&] { return static_cast<int>(run_one(job).status); });
  pid_t ranks[3];
  for (int i = 0; i < 3; ++i) ranks[i] = scratch.pid("run", "in." + std::to_string(i));
  for (const pid_t rank : ranks) EXPECT_TRUE(alive(rank));
  ::kill(supervisor, SIGKILL);
  EXPECT_EQ(wait_for(supervisor), -SIGKILL);
  for (const pid_t rank : ranks) EXPECT_TRUE(gone_within(rank, milliseconds(2000)));
}

/// What a program in between left under the number of our pipe is none of our business.
TEST(Orphan, RanksWithoutThePipeGoOn) {
  const Scratch scratch;
  Job job = scratch.job("run", 1, {});
  job.command = {"/bin/sh", "-c",
                 "eval \"exec $LOCKSTEP_SUPERVISOR_FD<&-\"; " + std::string(FAKE_RANK) + " watch sleep 200"};
  EXPECT_EQ(run_one(job).status, Status::kFinished);
  job.command[2] = "eval \"exec $LOCKSTEP_SUPERVISOR_FD</dev/null\"; " + std::string(FAKE_RANK) + " watch sleep 200";
  EXPECT_EQ(run_one(job).status, Status::kFinished);
}

/// Sends signals, all at once, to a supervisor whose ranks hang; its exit code says whether it came back with the right
/// outcomes.
int interrupted_by(const std::vector<int>& signals) {
  const Scratch scratch;
  const std::vector<Job> jobs = {scratch.job("done", 1, {"mark", "in"}), scratch.job("run", 2, {"mark", "in", "hang"}),
                                 scratch.job("never", 9, {"mark", "in"})};
  const pid_t supervisor = fork_supervisor([&] {
    for (const int signal : signals) ::signal(signal, SIG_DFL);  // a background job of a shell ignores SIGINT
    const std::vector<RunOutcome> outcomes = run_locally(jobs, 3);
    const bool right = outcomes[0].status == Status::kFinished && outcomes[1].status == Status::kInterrupted &&
                       outcomes[2].status == Status::kInterrupted && outcomes[1].ranks[1].how == How::kEnded;
    return right && number_of_children() == 0 ? 0 : 1;
  });
  const pid_t rank = scratch.pid("run", "in.0");
  scratch.pid("run", "in.1");
  const pid_t first = scratch.pid("done", "in.0");
  while (::kill(first, 0) == 0) std::this_thread::sleep_for(milliseconds(2));  // until it is reaped: seen finished
  ::kill(supervisor, SIGSTOP);
  for (const int signal : signals) ::kill(supervisor, signal);
  ::kill(supervisor, SIGCONT);
  const int code = wait_for(supervisor);
  EXPECT_FALSE(alive(rank));
  EXPECT_FALSE(std::filesystem::exists(jobs[2].directory / "in.0"));
  return code;
}

TEST(Orphan, InterruptEndsTheRanksAndReturnsTheOutcomes) { EXPECT_EQ(interrupted_by({SIGINT}), 0); }

TEST(Orphan, TerminationEndsTheRanksAndReturnsTheOutcomes) { EXPECT_EQ(interrupted_by({SIGTERM}), 0); }

TEST(Orphan, ImpatientUserDoesNotLoseTheOutcomes) { EXPECT_EQ(interrupted_by({SIGINT, SIGTERM}), 0); }

TEST(Orphan, SignalsHaveTheirOldEffectAfterwards) {
  const Scratch scratch;
  const Job job = scratch.job("run", 1, {});
  const pid_t supervisor = fork_supervisor([&] {
    ::signal(SIGINT, SIG_DFL);
    run_one(job);
    ::raise(SIGINT);
    return 0;
  });
  EXPECT_EQ(wait_for(supervisor), -SIGINT);
}

TEST(Orphan, IgnoredInterruptStaysIgnored) {
  const Scratch scratch;
  const Job job = scratch.job("run", 1, {"mark", "in", "await", "go"});
  const pid_t supervisor = fork_supervisor([&] {
    ::signal(SIGINT, SIG_IGN);
    return static_cast<int>(run_one(job).status);
  });
  scratch.pid("run", "in.0");
  ::kill(supervisor, SIGINT);
  std::this_thread::sleep_for(milliseconds(100));
  std::filesystem::create_directory(job.directory / "go");
  EXPECT_EQ(wait_for(supervisor), static_cast<int>(Status::kFinished));
}

}  // namespace
}  // namespace lockstep::launch
