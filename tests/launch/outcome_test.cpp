#include "harness/launch/outcome.h"

#include <csignal>

#include <gtest/gtest.h>

#include "harness/launch/worker_exit.h"

namespace lockstep::launch {
namespace {

using State = Sighting::State;
using Status = RunOutcome::Status;

constexpr int kPeerLost = static_cast<int>(WorkerExit::kPeerLost);

Sighting left(int code, std::int64_t round, Progress progress = {}) {
  return {.state = State::kExited, .value = code, .round = round, .progress = progress};
}

Sighting killed(int signal, std::int64_t round, Progress progress = {}) {
  return {.state = State::kSignalled, .value = signal, .round = round, .progress = progress};
}

Sighting running(std::int64_t step, Phase phase) { return {.progress = {.step = step, .phase = phase, .beats = 9}}; }

Sighting stopped(std::int64_t step, Phase phase) {
  return {.state = State::kStopped, .progress = {.step = step, .phase = phase, .beats = 9}};
}

const Expiry kStall{.clock = Expiry::Clock::kStall, .seconds = 10};
const Expiry kStop{.clock = Expiry::Clock::kStop, .seconds = 2};
const Expiry kDeadline{.clock = Expiry::Clock::kDeadline, .seconds = 2.5};

TEST(Outcome, NamesRankSignalStepAndPhase) {
  const Judgement judgement =
      judge_failure({running(3, Phase::kBackward), killed(SIGKILL, 4, {3, Phase::kForward, 8})});
  EXPECT_EQ(judgement, (Judgement{Status::kFailed, 1, "rank 1 was killed by SIGKILL at step 3 in forward"}));
}

TEST(Outcome, NamesRankCodeStepAndPhase) {
  const Judgement judgement = judge_failure({left(0, 1), left(0, 1), left(7, 2, {4, Phase::kBackward, 8})});
  EXPECT_EQ(judgement, (Judgement{Status::kFailed, 2, "rank 2 exited with code 7 at step 4 in backward"}));
}

TEST(Outcome, SignalGoesBeforeEarlierCode) {
  EXPECT_EQ(judge_failure({left(1, 1), killed(SIGSEGV, 5), killed(SIGABRT, 6)}).culprit, 1);
}

TEST(Outcome, CodeGoesBeforeEarlierLossOfPeer) {
  EXPECT_EQ(judge_failure({left(kPeerLost, 1), left(kPeerLost, 1), left(1, 2)}).culprit, 2);
}

/// A user's program has exit codes of its own: who left first is to blame, whatever the others say.
TEST(Outcome, OfAProgramTheFirstOneIsToBlame) {
  const auto of_program = [](Sighting rank) {
    rank.is_program = rank.under_launcher = true;
    return rank;
  };
  const Progress midst{3, Phase::kForward, 8};
  EXPECT_EQ(judge_failure({of_program(left(1, 5, midst)), of_program(left(0, 2, midst))}).why,
            "rank 1 exited with code 0 at step 3 in forward");
  EXPECT_EQ(judge_failure({of_program(left(5, 1, midst)), of_program(left(1, 2, midst))}).culprit, 0);
  EXPECT_EQ(judge_failure({of_program(killed(SIGTERM, 2, midst)), of_program(left(1, 1, midst))}).culprit, 1);
  EXPECT_EQ(judge_failure({of_program(left(1, 1, midst)), of_program(killed(SIGKILL, 1, midst))}).culprit, 0);
}

TEST(Outcome, WhoWroteToALostPeerIsItsVictim) {
  const int refused = static_cast<int>(WorkerExit::kRefused);
  EXPECT_EQ(judge_failure({killed(SIGPIPE, 1, {0, Phase::kBackward, 8}), left(refused, 2)}),
            (Judgement{Status::kRefused, 1,
                       "rank 1 exited with code 2 (RunSpec or environment refused) before its first step"}));
  EXPECT_EQ(judge_failure({killed(SIGPIPE, 1), left(kPeerLost, 2)}).why,
            "rank 0 was killed by SIGPIPE before its first step");
}

TEST(Outcome, FirstOfEqualsIsToBlame) {
  EXPECT_EQ(judge_failure({left(3, 9), left(3, 2), left(3, 5)}).culprit, 1);
  EXPECT_EQ(judge_failure({left(kPeerLost, 9), left(kPeerLost, 2)}).culprit, 1);
  EXPECT_EQ(judge_failure({killed(SIGBUS, 9), killed(SIGKILL, 2)}).culprit, 1);
}

TEST(Outcome, LeastProgressIsToBlameWithinARound) {
  EXPECT_EQ(judge_failure({left(1, 2, {5, Phase::kData, 1}), left(1, 2, {4, Phase::kRecord, 9})}).culprit, 1);
  EXPECT_EQ(judge_failure({left(1, 2, {5, Phase::kForward, 1}), left(1, 2, {5, Phase::kData, 9})}).culprit, 1);
}

TEST(Outcome, RankThatLeftWithZeroIsNoCulprit) {
  EXPECT_EQ(judge_failure({left(0, 1), left(0, 1), left(kPeerLost, 2)}).culprit, 2);
}

TEST(Outcome, ZeroInTheMiddleOfTheTrainingIsAFailure) {
  EXPECT_TRUE(failed(left(0, 1, {0, Phase::kData, 1})));
  EXPECT_TRUE(failed(left(0, 1, {3, Phase::kRecord, 1})));
  EXPECT_FALSE(failed(left(0, 1, {4, Phase::kDone, 1})));
  EXPECT_FALSE(failed(left(0, 1)));  // a program that reports nothing; its trace is looked at later
  const Judgement judgement = judge_failure({left(0, 1, {4, Phase::kDone, 9}), left(0, 1, {3, Phase::kBackward, 8})});
  EXPECT_EQ(judgement, (Judgement{Status::kFailed, 1, "rank 1 exited with code 0 at step 3 in backward"}));
}

TEST(Outcome, ExitCodesOfTheWorkerBecomeAStatus) {
  const auto status = [](int code) { return judge_failure({left(kPeerLost, 1), left(code, 1)}).status; };
  EXPECT_EQ(status(static_cast<int>(WorkerExit::kRefused)), Status::kRefused);
  EXPECT_EQ(status(static_cast<int>(WorkerExit::kResource)), Status::kResource);
  EXPECT_EQ(status(static_cast<int>(WorkerExit::kUnsupported)), Status::kUnsupported);
  EXPECT_EQ(status(static_cast<int>(WorkerExit::kFailed)), Status::kFailed);
  EXPECT_EQ(status(kPeerLost), Status::kFailed);
  EXPECT_EQ(judge_failure({killed(static_cast<int>(WorkerExit::kRefused), 1)}).status, Status::kFailed);
}

TEST(Outcome, RefusalInTheMiddleOfTheTrainingIsAFailure) {
  const Progress middle{1, Phase::kForward, 8};
  for (const WorkerExit exit : {WorkerExit::kRefused, WorkerExit::kUnsupported}) {
    const int code = static_cast<int>(exit);
    const Judgement judgement = judge_failure({left(code, 1, middle)});
    EXPECT_EQ(judgement, (Judgement{Status::kFailed, 0,
                                    "rank 0 exited with code " + std::to_string(code) + " at step 1 in forward"}));
  }
  EXPECT_EQ(judge_failure({left(static_cast<int>(WorkerExit::kResource), 1, middle)}).status, Status::kResource);
}

TEST(Outcome, SlowestRankIsToBlameForAStall) {
  const Judgement judgement =
      judge_hang({running(2, Phase::kBackward), running(2, Phase::kData), running(2, Phase::kBackward)}, kStall);
  EXPECT_EQ(judgement, (Judgement{Status::kHung, 1,
                                  "rank 1 made no progress for 10 s at step 2 in data while the others waited in "
                                  "backward (launch.stall_s = 10)"}));
}

TEST(Outcome, StallInOnePlaceBlamesNobody) {
  const Judgement judgement = judge_hang({running(2, Phase::kForward), running(2, Phase::kForward)}, kStall);
  EXPECT_EQ(judgement, (Judgement{Status::kHung, std::nullopt,
                                  "all ranks made no progress for 10 s at step 2 in forward (launch.stall_s = 10)"}));
}

TEST(Outcome, TwoSlowestRanksAreBothNamed) {
  const Judgement judgement =
      judge_hang({running(1, Phase::kRecord), running(1, Phase::kRecord), running(2, Phase::kData)}, kStall);
  EXPECT_EQ(judgement.culprit, std::nullopt);
  EXPECT_EQ(judgement.why,
            "ranks 0 and 1 made no progress for 10 s at step 1 in record while the others waited at step 2 in data "
            "(launch.stall_s = 10)");
}

TEST(Outcome, OnlyRanksThatStillRunCanHang) {
  const Judgement judgement = judge_hang({left(0, 1), running(2, Phase::kDone), left(0, 1)}, kDeadline);
  EXPECT_EQ(judgement,
            (Judgement{Status::kHung, 1,
                       "rank 1 did not finish within 2.5 s: it was after step 2 while the others had finished "
                       "(launch.deadline_s = 2.5)"}));
}

TEST(Outcome, TheOnlyRankThatIsDoneEarlyIsToBlame) {
  const Sighting waiting = running(3, Phase::kBackward);
  EXPECT_EQ(
      judge_hang({waiting, running(2, Phase::kDone), waiting}, kStall),
      (Judgement{Status::kHung, 1, "rank 1 finished after step 2, while the others continued (launch.stall_s = 10)"}));
  EXPECT_EQ(judge_hang({running(3, Phase::kDone), waiting}, kStall).culprit, 1) << "it has done the step";
  EXPECT_EQ(
      judge_hang({running(1, Phase::kDone), running(2, Phase::kDone), running(1, Phase::kBackward)}, kStall).culprit, 2)
      << "nobody who waits has begun another step";
  EXPECT_EQ(judge_hang({running(2, Phase::kDone), running(2, Phase::kDone), waiting}, kStall).culprit, std::nullopt);
  const Sighting victim = left(kPeerLost, 2, {3, Phase::kBackward, 8});
  EXPECT_EQ(judge_failure({victim, left(0, 1, {2, Phase::kDone, 7})}),
            (Judgement{Status::kFailed, 1, "rank 1 finished after step 2, while the others continued"}));
  EXPECT_EQ(judge_failure({left(1, 2, {3, Phase::kBackward, 8}), left(0, 1, {2, Phase::kDone, 7})}).culprit, 0)
      << "it failed by itself";
}

TEST(Outcome, WhoLeavesInPeaceWhileAllOthersLoseAPeerIsToBlame) {
  const Sighting victim = left(kPeerLost, 2, {2, Phase::kDone, 8}), done = left(0, 1, {2, Phase::kDone, 7});
  EXPECT_EQ(judge_failure({victim, done, victim}),
            (Judgement{Status::kFailed, 1, "rank 1 left after step 2 without waiting for the others"}));
  EXPECT_EQ(judge_failure({victim, done, done}).culprit, 0) << "two may have lost the same peer and not noticed";
  EXPECT_EQ(judge_failure({victim, done, killed(SIGKILL, 2, {2, Phase::kDone, 8})}).culprit, 2);
  EXPECT_EQ(judge_failure({victim, victim}).culprit, 0);
  const Sighting early = left(0, 1, {1, Phase::kForward, 7});
  for (const std::vector<Sighting>& ranks : {std::vector{early}, std::vector{early, victim}})
    EXPECT_EQ(judge_failure(ranks).why, "rank 0 exited with code 0 at step 1 in forward");
}

TEST(Outcome, StoppedRankIsToBlameWhereverItStands) {
  const Judgement judgement = judge_hang({running(2, Phase::kForward), stopped(2, Phase::kForward)}, kStop);
  EXPECT_EQ(judgement.culprit, 1);
  EXPECT_EQ(judgement.why, "rank 1 was stopped by a signal at step 2 in forward while the others waited in forward");
}

TEST(Outcome, WhoIsStoppedIsToBlameAheadOfWhoIsDoneEarly) {
  EXPECT_EQ(judge_hang({stopped(3, Phase::kBackward), running(2, Phase::kDone)}, kStop).culprit, 0);
}

TEST(Outcome, ProgramThatCannotBeLoadedIsNoFailureOfTheTraining) {
  const std::string log =
      "hello\n/x/worker: error while loading shared libraries: libtorch.so: cannot open shared object file\nmore\n";
  Sighting seen = left(127, 1);
  EXPECT_EQ(judge_failure({seen}).status, Status::kFailed);
  seen.not_loaded = linker_error_in(log);
  EXPECT_EQ(judge_failure({seen, left(kPeerLost, 1)}),
            (Judgement{Status::kResource, 0,
                       "rank 0 did not start, because its program could not be loaded: /x/worker: error while loading "
                       "shared libraries: libtorch.so: cannot open shared object file"}));
  EXPECT_EQ(linker_error_in("x: /lib/libc.so.6: version `GLIBC_2.99' not found (required by x)\n"),
            "x: /lib/libc.so.6: version `GLIBC_2.99' not found (required by x)");
  EXPECT_EQ(linker_error_in("sh: 1: worker: not found\n"), "");
  EXPECT_EQ(linker_error_in(""), "");
}

TEST(Outcome, RankThatNeverArrivedIsToBlame) {
  const Judgement judgement = judge_hang({running(-1, Phase::kStart), Sighting{.state = State::kWaiting}}, kDeadline);
  EXPECT_EQ(judgement.culprit, 1);
  EXPECT_EQ(judgement.why,
            "rank 1 had not started within 2.5 s while the others waited before its first step "
            "(launch.deadline_s = 2.5)");
}

/// torchrun, srun and mpirun end all ranks when one has failed.
TEST(Outcome, WhomALauncherEndedIsNotToBlame) {
  const auto under = [](Sighting seen) {
    seen.under_launcher = true;
    return seen;
  };
  const Sighting ended = under(killed(SIGTERM, 1)), ended_later = under(killed(SIGKILL, 2)),
                 ended_at_once = under(killed(SIGKILL, 1)), lost = under(left(kPeerLost, 1));
  EXPECT_EQ(judge_failure({ended, under(left(1, 1))}).culprit, 1);
  EXPECT_EQ(judge_failure({ended, under(left(1, 2))}).culprit, 1) << "it was seen late";
  EXPECT_EQ(judge_failure({ended_later, under(left(1, 1))}).culprit, 1);
  EXPECT_EQ(judge_failure({ended_at_once, under(left(1, 1))}).culprit, 1);
  EXPECT_EQ(judge_failure({ended, ended_at_once}).culprit, 1) << "SIGTERM is the launcher's signal";
  EXPECT_EQ(judge_failure({lost, ended_at_once}).culprit, 1) << "and this is nobody's";
  EXPECT_EQ(judge_failure({under(killed(SIGTERM, 2)), under(killed(SIGTERM, 1))}).culprit, 1);
  EXPECT_EQ(judge_failure({left(1, 1), killed(SIGTERM, 1)}).culprit, 1) << "of our own ranks, somebody else killed it";
}

}  // namespace
}  // namespace lockstep::launch
