#include "harness/launch/patience.h"

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/launch/pinned.h"
#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;
using Status = RunOutcome::Status;

[[noreturn]] void compute() {
  for (std::atomic<int> turns = 0;; ++turns) {
  }
}

/// Processes that leave a tenth of the first processor to anybody else. Each has a session of its own: Linux shares
/// processors among sessions.
class Crowd {
 public:
  Crowd() {
    for (int i = 0; i < 9; ++i) {
      pids_.push_back(fork_supervisor([]() -> int {
        ::setsid();
        pin_to_first_processor();
        compute();
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
  job.command = {"/bin/sh", "-c", std::string(FAKE_RANK) + " pin report 0 forward spin 500 report 0 done; exit 0"};
  job.stall_s = 2;  // the shell, too, has to get a processor to end
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kFinished) << outcome.why;
  EXPECT_GT(outcome.wall_s, 2) << "it got a whole processor";
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

TEST(Patience, ThreadsAndChildrenThatTakeTurnsAreNotHung) {
  const Scratch scratch;
  const Crowd crowd;
  using Words = std::vector<std::string>;
  for (const Words& work : {Words{"turns", "60", "4"}, Words{"children", "60", "4"}}) {
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

/// A process with four children, of which the test lets one compute at a time.
class Turns {
 public:
  Turns()
      : parent_(fork_supervisor([]() -> int {
          ::setsid();
          pin_to_first_processor();
          for (int i = 0; i < 4; ++i) {
            if (::fork() == 0) compute();
          }
          while (true) ::pause();
        })) {
    while (scheduling_of(parent_).threads.size() < 5) std::this_thread::sleep_for(1ms);
    for (const auto& [pid, time] : scheduling_of(parent_).threads) {
      if (pid == parent_) continue;
      ::kill(pid, SIGSTOP);
      children_.push_back({.pid = pid});
    }
  }
  ~Turns() {
    ::kill(-parent_, SIGKILL);
    wait_for(parent_);
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  Awaited parent() const { return {.pid = parent_}; }
  const std::vector<Awaited>& children() const { return children_; }

  void take(Patience& patience) const {
    for (const Awaited& child : children_) {
      ::kill(child.pid, SIGCONT);
      for (int look = 0; look < 12; ++look) {
        std::this_thread::sleep_for(50ms);
        patience.pass(Patience::Time::clock::now());
      }
      ::kill(child.pid, SIGSTOP);
    }
  }

 private:
  pid_t parent_;
  std::vector<Awaited> children_;
};

/// Between two questions, as the last ones of a long stall are. Each waits for a quarter of the time.
TEST(Patience, ProcessesThatTakeTurnsCountTogether) {
  const Crowd crowd;
  const Turns turns;
  for (const std::vector<Awaited>& awaited : {std::vector<Awaited>{turns.parent()}, turns.children()}) {
    Patience patience(Patience::Time::clock::now());
    std::this_thread::sleep_for(100ms);
    patience.pass(Patience::Time::clock::now());
    EXPECT_FALSE(patience.is_over(1200ms, awaited));
    turns.take(patience);
    EXPECT_FALSE(patience.is_over(1200ms, awaited)) << awaited.size();
  }
}

TEST(Patience, RankThatLoadsForEverIsHung) {
  const Scratch scratch;
  Job job = scratch.job("loads", 1, {"load", "1000000"});
  job.stall_s = 0.3;
  const RunOutcome outcome = run_one(job);
  EXPECT_EQ(outcome.status, Status::kHung);
  EXPECT_EQ(outcome.why, "rank 0 made no progress for 0.3 s before its first step (launch.stall_s = 0.3)");
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
  EXPECT_LT(outcome.wall_s, 12) << "as if loading had been excused: ten times the grace";
}

}  // namespace
}  // namespace lockstep::launch
