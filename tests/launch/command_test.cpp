// Commands that start their ranks themselves.
#include <algorithm>
#include <cstdlib>

#include <gtest/gtest.h>

#include "harness/launch/foreground.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using Status = RunOutcome::Status;

Job shell(const Scratch& scratch, const std::string& run, const std::string& script, std::int64_t world_size = 2) {
  Job job = scratch.job(run, world_size, {});
  job.command = {"/bin/sh", "-c", script};
  job.starter = Starter::kCommand;
  return job;
}

TEST(Command, IsOneProcessWhateverItsWorldSize) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(shell(scratch, "a", "echo $$ >> ../started; echo done", 3));
  EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why;
  EXPECT_EQ(outcome.ranks.size(), 3U);
  EXPECT_EQ(scratch.text("a", "command.log"), "done\n");
  const std::string started = scratch.text("a", "started");
  EXPECT_EQ(std::count(started.begin(), started.end(), '\n'), 1);
}

TEST(Command, ItsExitCodeMeansNothingToUs) {
  const Scratch scratch;
  for (const int code : {1, 2, 4, 5, 77}) {
    const std::string name = std::to_string(code);
    const RunOutcome outcome = run_one(shell(scratch, name, "echo last words; exit " + name));
    EXPECT_EQ(outcome.status, Status::kFailed) << code;
    EXPECT_EQ(outcome.why, "the command exited with code " + name + " before its first step");
    EXPECT_EQ(outcome.log_tail, "last words\n");
  }
}

/// Two ranks that a command starts, and that attend as a recorder does. Rank 1 does `deed`; then the command ends rank
/// 0 and fails.
TEST(Command, TheRankThatFailedIsNamed) {
  const std::string rank =
      "rank() { sh -c 'echo \"{\\\"run\\\":\\\"$LOCKSTEP_RUN_ID\\\",\\\"host\\\":\\\"$(uname -n)\\\",\\\"pid\\\":$$}\" "
      ">../new.$0; mv ../new.$0 ../rank$0.attendance; until test -e ../rank0.attendance -a -e ../rank1.attendance; "
      "do sleep 0.02; done; sleep 0.5; '\"$2\" $1 & }\n";
  const std::pair<const char*, std::string> deeds[] = {{"kill -KILL $$", "rank 1 was killed by SIGKILL"},
                                                       {"exit 7", "rank 1 exited with code 7"},
                                                       {"exit 5", "rank 1 exited with code 5"},
                                                       {"exit 0", "the command exited with code 3"}};
  const Scratch scratch;
  int number = 0;
  for (const auto& [deed, why] : deeds) {
    const RunOutcome outcome =
        run_one(shell(scratch, std::to_string(number++),
                      rank + "rank 0 'exec sleep 60'; zero=$!; rank 1 '" + deed + "'; wait $!; kill $zero; exit 3"));
    EXPECT_EQ(outcome.status, Status::kFailed) << deed;
    EXPECT_EQ(outcome.why, why + " before its first step");
  }
}

TEST(Command, ASignalIsNamed) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(shell(scratch, "a", "kill -SEGV $$"));
  EXPECT_EQ(outcome.status, Status::kFailed);
  EXPECT_EQ(outcome.why, "the command was killed by SIGSEGV before its first step");
}

TEST(Command, IsNotToldThePlaceOfItsParent) {
  ::setenv("RANK", "7", 1);
  ::setenv("WORLD_SIZE", "9", 1);
  const Scratch scratch;
  Job job = shell(scratch, "a", "echo \"$RANK$WORLD_SIZE$MASTER_PORT\"");
  job.environment["MASTER_PORT"] = "1234";
  const RunOutcome outcome = run_one(job);
  ::unsetenv("RANK");
  ::unsetenv("WORLD_SIZE");
  EXPECT_EQ(outcome.status, Status::kFinished);
  EXPECT_EQ(scratch.text("a", "command.log"), "1234\n");
}

TEST(Command, StallsOnlyAfterItHasBegun) {
  const Scratch scratch;
  Job job = shell(scratch, "a", "sleep 1");
  job.stall_s = 0.2;
  EXPECT_EQ(run_one(job).status, Status::kFinished) << "nobody knows how long a program takes to start";
  job = shell(scratch, "b", "sleep 60");
  job.deadline_s = 0.3;
  EXPECT_EQ(run_one(job).status, Status::kHung);
}

TEST(Command, ThoseThatRunAloneNeverMeet) {
  const Scratch scratch;
  const std::string script = "mkdir ../../held && sleep 0.2 && rmdir ../../held";
  std::vector<Job> jobs;
  for (const char* name : {"a", "b", "c"}) {
    jobs.push_back(shell(scratch, name, script));
    jobs.back().alone = true;
  }
  for (const RunOutcome& outcome : run_locally(jobs, 64)) EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why;
  for (Job& job : jobs) job.alone = false;
  int met = 0;
  for (const RunOutcome& outcome : run_locally(jobs, 64)) met += outcome.status == Status::kFailed ? 1 : 0;
  EXPECT_GT(met, 0) << "the script shows when two meet";
}

TEST(Command, NothingThatItStartedOutlivesIt) {
  const Scratch scratch;
  Job job = shell(scratch, "a", "setsid sleep 60 & echo $! > ../pid; exit 3");
  EXPECT_EQ(run_one(job).status, Status::kFailed);
  EXPECT_TRUE(gone_within(std::stoi(scratch.text("a", "pid")), std::chrono::seconds(5)));
}

TEST(Foreground, ReturnsTheExitCodeAsAShellSaysIt) {
  const Environment environment = inherited_environment();
  EXPECT_EQ(run_in_foreground("/bin/sh", {"sh", "-c", "exit 7"}, environment), 7);
  EXPECT_EQ(run_in_foreground("/bin/sh", {"sh", "-c", "kill -KILL $$"}, environment), 137);
  Environment with_own = environment;
  with_own["CODE"] = "9";
  EXPECT_EQ(run_in_foreground("/bin/sh", {"sh", "-c", "exit $CODE"}, with_own), 9);
  EXPECT_THROW(run_in_foreground("/nowhere/program", {"program"}, environment), std::exception);
}

}  // namespace
}  // namespace lockstep::launch
