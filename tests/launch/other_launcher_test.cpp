// Ranks that another launcher starts: found, supervised, judged and ended as our own are.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/launch/attendance.h"
#include "harness/launch/listener.h"
#include "harness/launch/local_run.h"
#include "harness/launch/other_launchers.h"
#include "harness/launch/processes.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using Status = RunOutcome::Status;
using Words = std::vector<std::string>;

Job by(const char* launcher, Job job, Launch launch = {}) {
  launch.port = listen_on_loopback(1).port;
  hand_over(job, *find_other_launcher(launcher), launch);
  return job;
}

/// By a launcher that starts two ranks and does what `then` says.
Job by_script(Job job, const std::string& then) {
  job = by("manual", std::move(job));
  std::string script;
  for (std::size_t i = 0; i < job.starts.size(); ++i)
    script += "RANK=" + std::to_string(i) + " \"$@\" & rank" + std::to_string(i) + "=$!\n";
  StartCommand start = job.starts.front();
  start.words = {"/bin/sh", "-c", script + then, "launcher"};
  start.words.insert(start.words.end(), job.command.begin(), job.command.end());
  job.starts = {start};
  return job;
}

bool has_mpirun() { return std::system("command -v mpirun >/dev/null") == 0; }

TEST(OtherLauncher, ManualRanksHaveNoMoreThanTheirVariables) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(by("manual", scratch.job("run", 3, {"report", "0", "done", "mark", "in"})));
  EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why << outcome.log_tail;
  ASSERT_EQ(outcome.ranks.size(), 3U);
  for (const RankExit& rank : outcome.ranks) EXPECT_EQ(rank.how, RankExit::How::kExited);
  for (const char* mark : {"in.0", "in.1", "in.2"}) EXPECT_GT(scratch.pid("run", mark), 0);
}

TEST(OtherLauncher, TorchrunsFoldersAreThoseOfTheRun) {
  const Scratch scratch;
  ::unsetenv("PET_LOG_DIR");
  const Job job = by("manual", scratch.job("run", 2, {}));
  EXPECT_EQ(job.environment.at("PET_LOG_DIR"), (job.directory / "torchelastic").string());
  Job chosen = scratch.job("chosen", 2, {});
  chosen.environment["PET_LOG_DIR"] = "/elsewhere";
  EXPECT_EQ(by("manual", chosen).environment.at("PET_LOG_DIR"), "/elsewhere") << "the scenario's";
  ::setenv("PET_LOG_DIR", "/their/own", 1);
  EXPECT_FALSE(by("manual", scratch.job("inherited", 2, {})).environment.contains("PET_LOG_DIR"));
  ::unsetenv("PET_LOG_DIR");
}

TEST(OtherLauncher, MpirunsRanksAreSupervised) {
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not installed; ci/setup --launchers installs it";
  const Scratch scratch;
  const RunOutcome outcome = run_one(by("mpirun", scratch.job("run", 3, {"report", "0", "done", "mark", "in"})));
  EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why << outcome.log_tail;
  for (const char* mark : {"in.0", "in.1", "in.2"}) EXPECT_GT(scratch.pid("run", mark), 0);
}

TEST(OtherLauncher, TheCulpritIsNamedWhicheverRanksTheLauncherEnds) {
  const std::pair<Words, const char*> deeds[] = {
      {{"signal", std::to_string(SIGKILL)}, "rank 1 was killed by SIGKILL at step 2 in backward"},
      {{"signal", std::to_string(SIGSEGV)}, "rank 1 was killed by SIGSEGV at step 2 in backward"},
      {{"exit", "3"}, "rank 1 exited with code 3 at step 2 in backward"},
      {{"exit", "0"}, "rank 1 exited with code 0 at step 2 in backward"}};
  const Scratch scratch;
  int number = 0;
  for (const auto& [deed, why] : deeds) {
    for (const char* launcher : {"mpirun", "manual"}) {
      const bool is_manual = launcher == std::string("manual");
      if (is_manual ? deed.front() == "exit" : !has_mpirun()) continue;
      Words script = {"report", "2", "backward", "mark", "in", "@1", "await", "in.0", "await", "in.2", "sleep", "200"};
      script.insert(script.end(), deed.begin(), deed.end());
      script.insert(script.end(), {"@all", "hang"});
      const std::string name = "run" + std::to_string(number++);
      const RunOutcome outcome = run_one(by(launcher, scratch.job(name, 3, script)));
      EXPECT_EQ(outcome.status, Status::kFailed) << launcher;
      EXPECT_EQ(outcome.culprit, 1) << launcher << ": " << outcome.why;
      EXPECT_EQ(outcome.why, why) << launcher;
      for (const char* mark : {"in.0", "in.1", "in.2"})
        EXPECT_TRUE(gone_within(scratch.pid(name, mark), std::chrono::seconds(5))) << launcher;
    }
  }
}

TEST(OtherLauncher, AHangingRankIsFound) {
  const Scratch scratch;
  Job job =
      by("manual", scratch.job("run", 2, {"report", "1", "forward", "@0", "report", "1", "backward", "@all", "hang"}));
  job.stall_s = 0.5;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_EQ(outcome.culprit, 1) << outcome.why;
}

TEST(OtherLauncher, AStoppedRankIsFound) {
  const Scratch scratch;
  const Job job =
      by("manual",
         scratch.job("run", 2, {"report", "1", "forward", "@1", "signal", std::to_string(SIGSTOP), "@all", "hang"}));
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_EQ(outcome.culprit, 1) << outcome.why;
}

TEST(OtherLauncher, OneThatIsKilledIsNamedAndLeavesNoRank) {
  const Scratch scratch;
  const Job job = by_script(scratch.job("run", 2, {"mark", "in", "hang"}),
                            "until test -e ../in.0 -a -e ../in.1; do sleep 0.05; done; kill -KILL $$");
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kFailed);
  EXPECT_FALSE(outcome.culprit);
  EXPECT_EQ(outcome.why, "the launcher (/bin/sh) was killed by SIGKILL before its first step");
  for (const char* mark : {"in.0", "in.1"}) EXPECT_TRUE(gone_within(scratch.pid("run", mark), std::chrono::seconds(5)));
}

TEST(OtherLauncher, OneThatLeavesItsRanksBehindFailsTheRun) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(by_script(scratch.job("run", 2, {"mark", "in", "report", "1", "forward", "hang"}),
                                               "until test -e ../in.0 -a -e ../in.1; do sleep 0.05; done; exit 0"));
  EXPECT_EQ(outcome.status, Status::kFailed);
  EXPECT_NE(outcome.why.find("ended with code 0, but rank 0 had not"), std::string::npos) << outcome.why;
  for (const char* mark : {"in.0", "in.1"}) EXPECT_TRUE(gone_within(scratch.pid("run", mark), std::chrono::seconds(5)));
}

TEST(OtherLauncher, OneThatStartsTooFewRanksIsNoSuccess) {
  const Scratch scratch;
  Job job = by("manual", scratch.job("run", 2, {"report", "0", "done"}));
  job.starts.pop_back();
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kFailed);
  EXPECT_LT(outcome.wall_s, job.stall_s) << "somebody waited for the rank";
  EXPECT_NE(outcome.why.find("rank 1 never began"), std::string::npos) << outcome.why;
  job.starts.front().words = {"/bin/true"};
  EXPECT_EQ(run_one(job).status, Status::kResource) << "no rank had a part in it";
}

TEST(OtherLauncher, ItsOwnFailureAfterAllRanksIsNoSuccess) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(by_script(scratch.job("run", 2, {"report", "0", "done"}), "wait; exit 3"));
  EXPECT_EQ(outcome.status, Status::kFailed);
  EXPECT_EQ(outcome.why, "the launcher (/bin/sh) exited with code 3 after all ranks had finished");
}

TEST(OtherLauncher, OneThatDoesNotEndAfterItsRanksHangs) {
  const Scratch scratch;
  Job job = by_script(scratch.job("run", 2, {"report", "0", "done"}), "sleep 60");
  job.stall_s = 0.5;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_EQ(outcome.why, "the launcher did not end after its ranks");
}

TEST(OtherLauncher, ItsRanksEndWithLockstep) {
  const Scratch scratch;
  const Job job = by("manual", scratch.job("run", 2, {"mark", "in", "hang"}));
  const pid_t supervisor = fork_supervisor([&] {
    run_one(job);
    return 0;
  });
  const pid_t first = scratch.pid("run", "in.0"), second = scratch.pid("run", "in.1");
  ::kill(supervisor, SIGKILL);
  wait_for(supervisor);
  EXPECT_TRUE(gone_within(first, std::chrono::seconds(5)));
  EXPECT_TRUE(gone_within(second, std::chrono::seconds(5)));
}

/// mpirun takes a second to tidy up.
TEST(OtherLauncher, ASecondInterruptionDoesNotWaitForIt) {
  const Scratch scratch;
  const Job job = by_script(scratch.job("run", 2, {"mark", "in", "hang"}), "trap '' TERM; wait; sleep 100");
  for (const int interrupts : {1, 2}) {
    const pid_t supervisor = fork_supervisor([&] { return static_cast<int>(run_one(job).status); });
    for (const char* mark : {"in.0", "in.1"}) EXPECT_GT(scratch.pid("run", mark), 0);
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < interrupts; ++i) {
      ::kill(supervisor, SIGINT);
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    EXPECT_EQ(wait_for(supervisor), static_cast<int>(Status::kInterrupted));
    EXPECT_EQ(std::chrono::steady_clock::now() - begin < kLauncherPatience, interrupts == 2);
    for (const char* mark : {"in.0", "in.1"}) std::filesystem::remove(job.directory / mark);
  }
}

TEST(OtherLauncher, ARankThatBeginsAfterAnInterruptionIsEnded) {
  const Scratch scratch;
  Job job = by_script(scratch.job("run", 2, {"mark", "in", "hang"}), "");
  std::string& script = job.starts[0].words.at(2);
  script = "trap '' TERM; RANK=0 \"$@\" & while [ ! -e ../go ]; do sleep 0.02; done; RANK=1 setsid \"$@\" & sleep 100";
  const pid_t supervisor = fork_supervisor([&] { return static_cast<int>(run_one(job).status); });
  scratch.pid("run", "in.0");
  ::kill(supervisor, SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::ofstream(job.directory / "go") << "";
  const std::filesystem::path attendance = job.directory / "rank1.attendance";  // it is ended before it does more
  for (int i = 0; i < 500 && !std::filesystem::exists(attendance); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto late = parse_json(read_file(attendance), attendance).at("pid").get<pid_t>();
  const auto begin = std::chrono::steady_clock::now();
  ::kill(supervisor, SIGINT);
  EXPECT_EQ(wait_for(supervisor), static_cast<int>(Status::kInterrupted));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLauncherPatience);
  EXPECT_FALSE(alive(late));
}

TEST(OtherLauncher, ARankThatIsKilledAfterItsLastWordIsBelieved) {
  const Scratch scratch;
  for (const bool has_left : {true, false}) {
    const pid_t rank = fork_supervisor([&] {
      const Attendance attendance(scratch.path(), 0, "id");
      ::raise(SIGSTOP);
      if (has_left) attendance.leave(4);
      ::raise(SIGTERM);
      return 0;
    });
    int status = 0;
    ::waitpid(rank, &status, WUNTRACED);
    const auto attendant = Attendant::find(scratch.path(), 0, "id");
    ASSERT_TRUE(attendant);
    EXPECT_FALSE(attendant->poll());
    ::kill(rank, SIGCONT);
    ::siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(rank), &info, WEXITED | WNOWAIT);
    const auto end = attendant->poll();
    wait_for(rank);
    ASSERT_TRUE(end);
    EXPECT_EQ(end->signalled, !has_left);
    EXPECT_EQ(end->value, has_left ? 4 : SIGTERM);
  }
}

TEST(OtherLauncher, AnAttendanceOfAnotherRunCountsForNothing) {
  const Scratch scratch;
  const Attendance stranger(scratch.path(), 0, "another");
  EXPECT_FALSE(Attendant::find(scratch.path(), 0, "this"));
  EXPECT_TRUE(Attendant::find(scratch.path(), 0, "another"));
  EXPECT_FALSE(Attendant::find(scratch.path(), 0, "another")->poll()) << "it runs";
}

TEST(OtherLauncher, OneThatIsMissingIsUnsupported) {
  const Scratch scratch;
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", scratch.path().c_str(), 1);
  for (const OtherLauncher& launcher : other_launchers()) {
    if (*launcher.program == '\0') continue;
    try {
      by(launcher.name, scratch.job("run", 2, {}));
      ADD_FAILURE() << launcher.name;
    } catch (const Unsupported& error) {
      EXPECT_NE(std::string(error.what()).find("is not installed"), std::string::npos) << error.what();
    }
  }
  ::setenv("PATH", path.c_str(), 1);
}

TEST(OtherLauncher, WhatItCannotStartIsRefused) {
  const Scratch scratch;
  EXPECT_THROW(by("mpirun", scratch.job("run", 4, {}), {.nodes = 2}), InputError);
  EXPECT_THROW(by("torchrun", scratch.job("run", 3, {}), {.nodes = 2}), InputError);
  EXPECT_THROW(by("accelerate", scratch.job("run", 1, {}), {}), InputError);
}

}  // namespace
}  // namespace lockstep::launch
