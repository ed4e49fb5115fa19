// Each fault that the launcher must tell apart, planted once.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/launch/launcher.h"
#include "harness/launch/worker_exit.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using How = RankExit::How;
using Status = RunOutcome::Status;
using std::chrono::milliseconds;

std::string code(WorkerExit exit) { return std::to_string(static_cast<int>(exit)); }

TEST(LauncherFault, ExitCodeNamesRankStepAndPhase) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(scratch.job(
      "code", 3,
      {"report", "4", "backward", "@2", "print", "out of luck", "exit", "7", "@all", "sleep", "100", "exit", "5"}));
  EXPECT_EQ(outcome.status, Status::kFailed);
  EXPECT_EQ(outcome.culprit, 2);
  EXPECT_EQ(outcome.why, "rank 2 exited with code 7 at step 4 in backward");
  EXPECT_EQ(outcome.log_tail, "out of luck\n");
  EXPECT_EQ(outcome.ranks[0].how, How::kExited);  // the grace let it say what it saw
  EXPECT_EQ(outcome.ranks[0].code, 5);
  EXPECT_LT(outcome.wall_s - last_end_s(outcome), 1.5) << "all are gone: nobody waits for the grace to pass";
}

TEST(LauncherFault, AllRanksThatLeaveEarlyWithZero) {
  const Scratch scratch;
  const RunOutcome outcome =
      run_one(scratch.job("early", 2, {"report", "2", "data", "@1", "exit", "0", "@all", "report", "2", "optimizer"}));
  EXPECT_EQ(outcome.status, Status::kFailed);
  EXPECT_NE(outcome.why.find(" exited with code 0 at step 2 in "), std::string::npos) << outcome.why;
}

/// Its peer waits for it without an end: not a hang of the peer.
TEST(LauncherFault, RankThatLeavesEarlyWithZeroWhileItsPeerHangs) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(scratch.job("early", 2, {"report", "2", "backward", "@0", "hang"}));
  EXPECT_EQ(outcome.status, Status::kFailed);
  EXPECT_EQ(outcome.culprit, 1);
  EXPECT_EQ(outcome.ranks[0].how, How::kEnded);
}

TEST(LauncherFault, VictimThatHangsIsEndedAfterTheGrace) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(scratch.job("code", 2, {"@0", "exit", "3", "@1", "report", "1", "data", "hang"}));
  EXPECT_EQ(outcome.culprit, 0);
  EXPECT_EQ(outcome.ranks[1].how, How::kEnded);
  EXPECT_EQ(outcome.ranks[1].progress.step, 1);
  const double after_failure_s = outcome.wall_s - outcome.ranks[0].after_s;
  EXPECT_GT(after_failure_s, 1.9);
  EXPECT_LT(after_failure_s, 4);
}

TEST(LauncherFault, VictimsThatFailFirstAreNotTheCulprit) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(
      scratch.job("cascade", 3, {"@1", "sleep", "200", "exit", "7", "@all", "exit", code(WorkerExit::kPeerLost)}));
  EXPECT_EQ(outcome.culprit, 1);
}

TEST(LauncherFault, RankKilledFromOutside) {
  const Scratch scratch;
  const Job job = scratch.job("kill", 3, {"report", "3", "forward", "mark", "in", "hang"});
  std::thread killer([&] { ::kill(scratch.pid("kill", "in.1"), SIGKILL); });
  const RunOutcome outcome = run_one(job);
  killer.join();
  EXPECT_EQ(outcome.status, Status::kFailed);
  EXPECT_EQ(outcome.culprit, 1);
  EXPECT_EQ(outcome.why, "rank 1 was killed by SIGKILL at step 3 in forward");
  EXPECT_EQ(outcome.ranks[1].how, How::kSignalled);
  EXPECT_EQ(outcome.ranks[1].signal, SIGKILL);
  EXPECT_EQ(outcome.ranks[0].how, How::kEnded);
}

TEST(LauncherFault, CrashNamesItsSignal) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(scratch.job("crash", 1, {"signal", std::to_string(SIGABRT)}));
  EXPECT_EQ(outcome.status, Status::kFailed);
  EXPECT_EQ(outcome.why, "rank 0 was killed by SIGABRT before its first step");
}

TEST(LauncherFault, StallNamesTheRankThatTheOthersWaitFor) {
  const Scratch scratch;
  Job job = scratch.job("stall", 3, {"report", "2", "data", "@1", "hang", "@all", "report", "2", "backward", "hang"});
  job.stall_s = 0.5;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_EQ(outcome.culprit, 1);
  EXPECT_EQ(
      outcome.why,
      "rank 1 made no progress for 0.5 s at step 2 in data while the others waited in backward (launch.stall_s = 0.5)");
  EXPECT_GE(outcome.wall_s, 0.5);
  for (const RankExit& rank : outcome.ranks) EXPECT_EQ(rank.how, How::kEnded);
}

TEST(LauncherFault, StallOfAllBlamesNobody) {
  const Scratch scratch;
  Job job = scratch.job("stall", 2, {"report", "2", "forward", "hang"});
  job.stall_s = 0.3;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_EQ(outcome.culprit, std::nullopt);
  EXPECT_EQ(outcome.why, "all ranks made no progress for 0.3 s at step 2 in forward (launch.stall_s = 0.3)");
}

TEST(LauncherFault, DeadlineEndsARunThatStillBeats) {
  const Scratch scratch;
  Job job = scratch.job("deadline", 2, {"@0", "report", "90000", "data", "hang", "@1", "beat", "100000"});
  job.deadline_s = 0.5;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_EQ(outcome.culprit, 1);
  EXPECT_NE(outcome.why.find("rank 1 did not finish within 0.5 s: it was at step "), std::string::npos) << outcome.why;
  EXPECT_NE(outcome.why.find("(launch.deadline_s = 0.5)"), std::string::npos) << outcome.why;
  EXPECT_LT(outcome.wall_s, 500) << "it ended by itself";
}

TEST(LauncherFault, DeadlineCountsRanksThatNeverArrived) {
  const Scratch scratch;
  Job job = scratch.job("late", 2, {"hang"});
  job.arrival_delay_ms = {0, 60000};
  job.deadline_s = 0.3;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_EQ(outcome.culprit, 1);
}

TEST(LauncherFault, StoppedRankIsToldAtOnce) {
  const Scratch scratch;
  Job job = scratch.job("stop", 2, {"report", "2", "forward", "mark", "in", "@0", "beat", "1000000", "@1", "hang"});
  job.stall_s = 1000;
  std::thread stopper([&] { ::kill(scratch.pid("stop", "in.1"), SIGSTOP); });
  const RunOutcome outcome = run_one(job);
  stopper.join();
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_EQ(outcome.culprit, 1);
  EXPECT_TRUE(outcome.why.starts_with("rank 1 was stopped by a signal at step 2 in forward")) << outcome.why;
  EXPECT_EQ(outcome.why.find("launch."), std::string::npos) << outcome.why;
  EXPECT_LT(outcome.wall_s, job.stall_s / 2);
}

TEST(LauncherFault, RankThatIsContinuedSoonGoesOn) {
  const Scratch scratch;
  const Job job = scratch.job("stop", 1, {"mark", "in", "await", "on", "report", "0", "done"});
  std::thread stopper([&] {
    const pid_t rank = scratch.pid("stop", "in.0");
    for (int i = 0; i < 4; ++i) {  // longer than the grace in all, but never without a break
      ::kill(rank, SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(600));
      ::kill(rank, SIGCONT);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    std::ofstream(job.directory / "on") << "";
  });
  EXPECT_EQ(run_one(job).status, Status::kFinished);
  stopper.join();
}

/// Whoever looks at a rank with a debugger must not lose it, however long that takes.
TEST(LauncherFault, RankUnderADebuggerIsNotHung) {
  const Scratch scratch;
  Job job = scratch.job("debugged", 1, {"mark", "in", "await", "on", "report", "0", "done"});
  job.stall_s = 1;
  bool attached = false;
  std::thread debugger([&] {
    const pid_t rank = scratch.pid("debugged", "in.0");
    attached = ::ptrace(PTRACE_SEIZE, rank, nullptr, nullptr) == 0 &&
               ::ptrace(PTRACE_INTERRUPT, rank, nullptr, nullptr) == 0 && ::waitpid(rank, nullptr, __WALL) == rank;
    std::this_thread::sleep_for(std::chrono::milliseconds(3000));
    std::ofstream(job.directory / "on") << "";
    ::ptrace(PTRACE_DETACH, rank, nullptr, nullptr);
  });
  const RunOutcome outcome = run_one(job);
  debugger.join();
  if (!attached) GTEST_SKIP() << "this machine lets nobody debug";
  EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why;
}

TEST(LauncherFault, ProgramThatCannotBeLoadedIsAResourceFailure) {
  const Scratch scratch;
  Job job = scratch.job("load", 2, {});
  job.environment = {{"LD_PRELOAD", "/nowhere/libnone.so"}};  // no error, a warning of ld.so: the run is a good one
  EXPECT_EQ(run_one(job).status, Status::kFinished);
  const std::filesystem::path broken = scratch.path() / "broken";
  std::filesystem::copy_file(FAKE_RANK, broken);
  std::string program = read_file(broken);
  const std::size_t name = program.find("libstdc++.so.6");
  ASSERT_NE(name, std::string::npos);
  write_file(broken, program.replace(name, 3, "xyz"));
  std::filesystem::permissions(broken, std::filesystem::perms::owner_all);
  job.command = {broken.string()};
  job.environment = {};
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kResource);
  EXPECT_NE(outcome.why.find("could not be loaded: "), std::string::npos) << outcome.why;
  EXPECT_NE(outcome.why.find("xyzstdc++.so.6"), std::string::npos) << outcome.why;
}

TEST(LauncherFault, DelayedRankDoesNotStartIntoAFailedRun) {
  const Scratch scratch;
  Job job = scratch.job("late", 3, {"mark", "in", "@0", "exit", "1", "@all", "sleep", "600", "exit", "5"});
  job.arrival_delay_ms = {0, 300};
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.culprit, 0);
  EXPECT_EQ(outcome.ranks[1].how, How::kEnded);
  EXPECT_EQ(outcome.ranks[2].code, 5);
  EXPECT_LT(outcome.wall_s - last_end_s(outcome), 1.5) << "nobody waits for a rank that will not come";
  EXPECT_FALSE(std::filesystem::exists(job.directory / "in.1"));
}

TEST(LauncherFault, RefusalOfTheWorkerIsRefused) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(
      scratch.job("refused", 2, {"@0", "exit", code(WorkerExit::kRefused), "@1", "exit", code(WorkerExit::kPeerLost)}));
  EXPECT_EQ(outcome.status, Status::kRefused);
  EXPECT_EQ(outcome.culprit, 0);
  EXPECT_EQ(outcome.why, "rank 0 exited with code 2 (RunSpec or environment refused) before its first step");
}

TEST(LauncherFault, ResourceAndUnsupportedKeepTheirMeaning) {
  const Scratch scratch;
  EXPECT_EQ(run_one(scratch.job("full", 1, {"exit", code(WorkerExit::kResource)})).status, Status::kResource);
  EXPECT_EQ(run_one(scratch.job("gpu", 1, {"exit", code(WorkerExit::kUnsupported)})).status, Status::kUnsupported);
}

TEST(LauncherFault, RunWithoutADirectoryIsAResourceFailure) {
  const Scratch scratch;
  Job job = scratch.job("run", 1, {});
  job.directory = "/proc/nowhere";
  const std::vector<RunOutcome> outcomes = run_locally({job, scratch.job("other", 1, {})}, 8);
  EXPECT_EQ(outcomes[0].status, Status::kResource);
  EXPECT_NE(outcomes[0].why.find("/proc/nowhere"), std::string::npos) << outcomes[0].why;
  EXPECT_EQ(outcomes[1].status, Status::kFinished);
}

TEST(LauncherFault, RunThatNeedsMoreMemoryThanThereIsDoesNotBegin) {
  const Scratch scratch;
  Job job = scratch.job("large", 3, {"mark", "in"});
  job.rank_memory = std::uintmax_t{1} << 50;
  const std::vector<RunOutcome> outcomes = run_locally({job, scratch.job("other", 1, {})}, 8);
  EXPECT_EQ(outcomes[0].status, Status::kResource);
  EXPECT_NE(outcomes[0].why.find("3 ranks take at least 3221225472 MiB of memory, and "), std::string::npos)
      << outcomes[0].why;
  EXPECT_FALSE(std::filesystem::exists(job.directory / "in.0"));
  EXPECT_EQ(outcomes[1].status, Status::kFinished);
  job.rank_memory = 1;
  EXPECT_EQ(run_one(job).status, Status::kFinished);
}

TEST(LauncherFault, NoMoreDescriptorsIsAResourceFailure) {
  const Scratch scratch;
  const pid_t supervisor = fork_supervisor([&] {
    const rlim_t few = static_cast<rlim_t>(number_of_descriptors()) + 8;
    const rlimit limit{.rlim_cur = few, .rlim_max = few};
    ::setrlimit(RLIMIT_NOFILE, &limit);
    const RunOutcome outcome = run_one(scratch.job("run", 16, {"mark", "in", "hang"}));
    const bool all_ended = number_of_children() == 0 && outcome.ranks[0].how == How::kEnded;
    return outcome.status == Status::kResource && all_ended ? 0 : 1;
  });
  EXPECT_EQ(wait_for(supervisor), 0);
}

/// The limit on processes does not bind root, so the supervisor becomes a user whom nobody else is.
TEST(LauncherFault, NoMoreProcessesIsAResourceFailure) {
  if (::getuid() != 0) GTEST_SKIP() << "needs root, to become a user with no other process";
  const Scratch scratch;
  Job job = scratch.job("run", 4, {});
  job.command = {"/bin/sleep", "60"};
  for (const auto& path : {scratch.path(), job.directory}) ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  const pid_t supervisor = fork_supervisor([&] {
    const rlimit limit{.rlim_cur = 3, .rlim_max = 3};  // this process and two ranks
    const uid_t nobody_else = 1000000 + static_cast<uid_t>(::getpid());
    if (::setuid(nobody_else) != 0 || ::setrlimit(RLIMIT_NPROC, &limit) != 0) return 2;
    const RunOutcome outcome = run_one(job);
    const bool named = outcome.why.starts_with("rank 2 could not be started: ");
    return outcome.status == Status::kResource && named && number_of_children() == 0 ? 0 : 1;
  });
  EXPECT_EQ(wait_for(supervisor), 0);
}

TEST(LauncherFault, LogTailIsShort) {
  const Scratch scratch;
  Job job = scratch.job("tail", 1, {});
  job.command = {"/bin/sh", "-c", "seq 1 100; exit 1"};
  const std::string tail = run_one(job).log_tail;
  EXPECT_TRUE(tail.starts_with("81\n") && tail.ends_with("\n100\n")) << tail;
  job.command = {"/bin/sh", "-c", "head -c 9000 /dev/zero | tr '\\0' x; exit 1"};
  EXPECT_EQ(run_one(job).log_tail, std::string(4096, 'x'));
  job.command = {"/bin/false"};
  EXPECT_EQ(run_one(job).log_tail, "");
}

}  // namespace
}  // namespace lockstep::launch
