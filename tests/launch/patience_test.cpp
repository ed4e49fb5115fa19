#include "harness/launch/patience.h"

#include <atomic>
#include <csignal>
#include <vector>

#include <gtest/gtest.h>

#include "tests/launch/pinned.h"
#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;
using Status = RunOutcome::Status;

/// Processes that leave a tenth of the first processor to anybody else. Each has a session of its own: Linux shares
/// processors among sessions.
class Crowd {
 public:
  Crowd() {
    for (int i = 0; i < 9; ++i) {
      pids_.push_back(fork_supervisor([]() -> int {
        ::setsid();
        pin_to_first_processor();
        for (std::atomic<int> turns = 0;; ++turns) {
        }
      }));
    }
  }
  ~Crowd() {
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids_) wait_for(pid);
  }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

 private:
  std::vector<pid_t> pids_;
};

TEST(Patience, IsOverWhenTheTimeHasPassed) {
  Patience::Time now;
  Patience patience(now);
  for (int i = 1; i < 20; ++i) {
    patience.pass(now += 50ms);
    EXPECT_FALSE(patience.is_over(1s, {})) << i;
  }
  patience.pass(now += 50ms);
  EXPECT_TRUE(patience.is_over(1s, {}));
  patience.renew();
  EXPECT_FALSE(patience.is_over(1s, {}));
}

TEST(Patience, TimeInWhichNobodyLookedIsCapped) {
  Patience::Time now;
  Patience patience(now);
  patience.pass(now += 1h);
  EXPECT_FALSE(patience.is_over(1s, {}));
}

TEST(Patience, RankThatGetsNoProcessorIsNotHung) {
  const Scratch scratch;
  const Crowd crowd;
  Job job = scratch.job("starved", 2,
                        {"@0", "pin", "report", "0", "forward", "spin", "250", "mark", "in", "@1", "report", "0",
                         "forward", "await", "in.0", "@all", "report", "0", "done"});
  job.stall_s = 1;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why;
  EXPECT_GT(outcome.wall_s, 1) << "it got a whole processor";
}

TEST(Patience, RankThatSpinsBesideACrowdIsHung) {
  const Scratch scratch;
  const Crowd crowd;
  Job job = scratch.job("spins", 1, {"pin", "report", "0", "forward", "spin", "1000000"});
  job.stall_s = 0.3;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_EQ(outcome.why, "rank 0 made no progress for 0.3 s at step 0 in forward (launch.stall_s = 0.3)");
  EXPECT_GT(outcome.wall_s, 0.6) << "the time in which it waited for a processor counted";
}

TEST(Patience, RankThatWaitsBesideACrowdIsHungAsSoonAsElsewhere) {
  const Scratch scratch;
  Job job = scratch.job("waits", 1, {"pin", "report", "0", "forward", "hang"});
  job.stall_s = 1;
  const double alone_s = run_one(job).wall_s;
  const Crowd crowd;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_LT(outcome.wall_s, alone_s + 5) << "as if it had spun";
}

TEST(Patience, DescendantsCount) {
  const Scratch scratch;
  const Crowd crowd;
  Job job = scratch.job("starved", 1, {});
  job.command = {"/bin/sh", "-c", std::string(FAKE_RANK) + " pin report 0 forward spin 250 report 0 done; exit 0"};
  job.stall_s = 1;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why;
  EXPECT_GT(outcome.wall_s, 1) << "it got a whole processor";
}

TEST(Patience, RankIsNotHungWhileItIsLoaded) {
  const Scratch scratch;
  Job job = scratch.job("loads", 1, {"load", "2000", "report", "0", "done"});
  job.stall_s = 1;
  EXPECT_EQ(run_one(job).status, Status::kFinished);
  job = scratch.job("trains", 1, {"report", "0", "forward", "load", "100000"});
  job.stall_s = 1;
  EXPECT_EQ(run_one(job).status, Status::kHung);
  job = scratch.job("sleeps", 1, {"sleep", "100000"});
  job.stall_s = 1;
  EXPECT_EQ(run_one(job).status, Status::kHung);
}

TEST(Patience, RankThatIsSlowToFailIsToBlame) {
  const Scratch scratch;
  const Crowd crowd;
  // The other one sees the failure first, as when a connection is closed while its owner still writes down why.
  Job job = scratch.job("slow", 2,
                        {"@0", "report", "1", "forward", "await", "in.1", "exit", "5", "@1", "pin", "report", "1",
                         "forward", "mark", "in", "spin", "300", "exit", "1"});
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.culprit, 1) << outcome.why;
}

/// No thread or child waits for long, and all together do.
TEST(Patience, ThreadsAndChildrenThatTakeTurnsAreNotHung) {
  const Scratch scratch;
  const Crowd crowd;
  using Words = std::vector<std::string>;
  for (const Words& work : {Words{"turns", "4", "60"}, Words{"children", "12", "20"}}) {
    Words script = {"pin", "report", "0", "forward"};
    script.insert(script.end(), work.begin(), work.end());
    script.insert(script.end(), {"report", "0", "done"});
    Job job = scratch.job(work[0], 1, script);
    job.stall_s = 1;
    const RunOutcome outcome = run_one(job);
    EXPECT_EQ(outcome.status, Status::kFinished) << work[0] << ": " << outcome.why;
    EXPECT_GT(outcome.wall_s, 1) << "it got a whole processor";
  }
}

TEST(Patience, RankThatLoadsForEverIsHung) {
  const Scratch scratch;
  Job job = scratch.job("loads", 1, {"load", "1000000"});
  job.stall_s = 0.3;
  EXPECT_EQ(run_one(job).status, Status::kHung);
}

TEST(Patience, ThreadsThatLeaveEachOtherNoProcessorAreHung) {
  const Scratch scratch;
  Job job = scratch.job("spins", 1, {"pin", "report", "0", "forward", "crowd", "20", "hang"});
  job.stall_s = 1;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_LT(outcome.wall_s, 8) << "their waiting for each other did not count";
}

TEST(Patience, NobodyWaitsForARankToLoadAfterAFailure) {
  const Scratch scratch;
  const RunOutcome outcome = run_one(scratch.job("loads", 2, {"@0", "exit", "1", "@1", "load", "100000"}));
  EXPECT_EQ(outcome.culprit, 0);
  EXPECT_LT(outcome.wall_s, 50);
}

}  // namespace
}  // namespace lockstep::launch
