// Runs that end badly: who is to blame and why, and the check that may expect it.
#include "harness/judge/endings.h"

#include "harness/base/files.h"
#include "harness/diagnosis/causes.h"
#include "harness/launch/worker_exit.h"

#include "tests/support/tiny/judged.h"

namespace lockstep::test {
namespace {

using launch::Phase;
using launch::RankExit;
using launch::RunOutcome;
using Outcome = RunOutcome::Status;
using VerdictStatus = judge::Status;

RankExit rank_at(std::int64_t step, Phase phase, std::uint64_t collectives, const std::string& collective,
                 RankExit::How how = RankExit::How::kEnded) {
  return {.how = how, .progress = {.step = step, .phase = phase, .collectives = collectives, .collective = collective}};
}

std::string cause(const RunOutcome& outcome) {
  const auto suspects = judge::suspects_in_ending(outcome);
  for (const compare::Suspect& suspect : suspects) EXPECT_NE(diagnosis::find_cause(suspect.cause), nullptr);
  return suspects.empty() ? "" : suspects[0].cause;
}

RunOutcome killed() {
  return {.run = "s/a/0",
          .status = Outcome::kFailed,
          .ranks = {rank_at(2, Phase::kBackward, 9, "allreduce Float[8] SUM"),
                    rank_at(2, Phase::kForward, 8, "allreduce Float[4] SUM", RankExit::How::kSignalled)},
          .culprit = 1,
          .why = "rank 1 was killed"};
}

RunOutcome hung_at(std::vector<RankExit> ranks) {
  RunOutcome hung = killed();
  hung.status = Outcome::kHung;
  hung.ranks = std::move(ranks);
  return hung;
}

TEST(Endings, ALostRank) { EXPECT_EQ(cause(killed()), "proc.rank_lost"); }

TEST(Endings, RanksThatAllFailByThemselvesLostNobody) {
  RunOutcome failed = killed();
  for (RankExit& rank : failed.ranks) {
    rank.how = RankExit::How::kExited;
    rank.code = 1;
  }
  EXPECT_EQ(cause(failed), "");
  failed.ranks[0].code = static_cast<int>(launch::WorkerExit::kPeerLost);
  EXPECT_EQ(cause(failed), "proc.rank_lost");
}

TEST(Endings, AStuckRank) {
  RunOutcome hung = killed();
  hung.status = Outcome::kHung;
  hung.ranks[1].how = RankExit::How::kEnded;
  EXPECT_EQ(cause(hung), "proc.rank_stuck");
}

RankExit failed_before_its_first_step(const std::string& what, std::int64_t at_ns, const std::string& nccl = "") {
  return {.how = RankExit::How::kExited,
          .code = 1,
          .failure = launch::WorkerFailure{.what = what, .at_ns = at_ns, .nccl_interfaces = nccl}};
}

RunOutcome never_began(std::vector<RankExit> ranks) {
  return {.run = "s/a/0",
          .status = Outcome::kFailed,
          .ranks = std::move(ranks),
          .culprit = 0,
          .why = "the command exited with code 1 before its first step"};
}

constexpr const char* kNoPort =
    "the script ended with DistNetworkError: The server socket has failed to listen on any local network address. "
    "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use (rendezvous.py:199)";
constexpr const char* kNoInterface =
    "the script ended with RuntimeError: [enforce fail at /pytorch/third_party/gloo/gloo/transport/tcp/device.cc:84] "
    "ifa != nullptr. Unable to find address for: eth9 (distributed_c10d.py:2087)";
constexpr const char* kNoNcclInterface =
    "the script ended with DistBackendError: NCCL error in: "
    "/pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1, "
    "invalid usage, NCCL version 2.28.9\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
    "Last error:\nBootstrap : no socket interface found (distributed_c10d.py:3000)";
constexpr const char* kOther = "the script ended with ValueError: no (train.py:3)";

TEST(Endings, APortThatIsTaken) {
  RunOutcome failed = never_began({failed_before_its_first_step(kOther, 8), failed_before_its_first_step(kNoPort, 7)});
  const auto suspects = judge::suspects_in_ending(failed);
  ASSERT_EQ(suspects.size(), 1U);
  EXPECT_EQ(suspects[0].cause, "launch.port_taken");
  EXPECT_EQ(suspects[0].evidence.at(0),
            "rank 1: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, "
            "code: -98, name: EADDRINUSE, message: address already in use");
  EXPECT_EQ(judge::rank_to_blame(failed, suspects), 1);
  EXPECT_EQ(judge::ending_of(failed, "").failure.value().rank, 1);

  failed.ranks[0].failure->at_ns = 6;
  EXPECT_EQ(cause(failed), "") << "another failure was first";
  failed.ranks[0].failure->at_ns = 8;
  failed.ranks[0].progress.step = 0;
  EXPECT_NE(cause(failed), "launch.port_taken") << "the ranks had met";
}

TEST(Endings, APortThatIsTakenInOtherWords) {
  const std::string port =
      "The server socket has failed to listen on any local network address. The server socket has failed to bind to "
      "[::]:29500 (errno: 98 - Address already in use).";
  const auto cause_of = [](const std::string& what) {
    return cause(never_began({failed_before_its_first_step(what, 1)}));
  };
  EXPECT_EQ(cause_of("the script ended with DistNetworkError: " + port + " (r.py:1)"), "launch.port_taken");
  const std::string spawned =
      "the script ended with ProcessRaisedException: \n\n-- Process 0 terminated with the following error:\n"
      "Traceback (most recent call last):\n  File \"train.py\", line 3, in work\n    start()\n";
  EXPECT_EQ(cause_of(spawned + "torch.distributed.DistNetworkError: " + port + "\n (spawn.py:211)"),
            "launch.port_taken");
  EXPECT_EQ(
      cause_of(spawned + "torch.distributed.DistNetworkError: " + port +
               "\n\nDuring handling of the above exception, another exception occurred:\n\n"
               "Traceback (most recent call last):\n  File \"train.py\", line 5, in work\nValueError: no\n (s.py:1)"),
      "proc.rank_lost")
      << "it was caught";
}

TEST(Endings, AnInterfaceThatIsNotThere) {
  EXPECT_EQ(cause(never_began({failed_before_its_first_step(kNoInterface, 7)})), "launch.interface_unknown");
  EXPECT_EQ(cause(never_began({failed_before_its_first_step(kNoNcclInterface, 7, "eth9")})),
            "launch.interface_unknown");
  EXPECT_EQ(cause(never_began({failed_before_its_first_step(kNoNcclInterface, 7)})), "proc.rank_lost")
      << "nobody named one";
}

TEST(Endings, WhoQuotesAFailedLaunchIsNone) {
  for (const std::string& words : {std::string(kNoPort), std::string(kNoInterface), std::string(kNoNcclInterface)}) {
    const std::string quoted = "the script ended with ValueError: before: " + words;
    EXPECT_EQ(cause(never_began({failed_before_its_first_step(quoted, 7, "eth9")})), "proc.rank_lost");
    EXPECT_EQ(cause(never_began({failed_before_its_first_step("x: " + words, 7, "eth9")})), "proc.rank_lost");
  }
}

TEST(Endings, ALaunchersOwnPortIsTaken) {
  RunOutcome failed = never_began({failed_before_its_first_step("", 0), failed_before_its_first_step("", 0)});
  for (RankExit& rank : failed.ranks) rank.failure.reset();
  EXPECT_EQ(cause(failed), "");
  failed.command_failure = launch::WorkerFailure{.what = kNoPort, .at_ns = 7};
  EXPECT_EQ(cause(failed), "launch.port_taken");
  EXPECT_EQ(judge::rank_to_blame(failed, judge::suspects_in_ending(failed)), 0);
  failed.ranks[1] = failed_before_its_first_step(kOther, 6);
  EXPECT_EQ(cause(failed), "");
}

TEST(Endings, ACollectiveOfOneRank) {
  RunOutcome hung = hung_at({rank_at(2, Phase::kBackward, 9, "allreduce Float[8] SUM"),
                             rank_at(2, Phase::kForward, 9, "allreduce Float[1] SUM")});
  hung.culprit.reset();
  EXPECT_EQ(cause(hung), "control.rank_branch");
  EXPECT_EQ(judge::rank_to_blame(hung, judge::suspects_in_ending(hung)), std::nullopt) << "of two, either may be wrong";
  hung.ranks[1] = rank_at(2, Phase::kBackward, 9, "allreduce Float[8] SUM");
  EXPECT_EQ(cause(hung), "") << "they wait in one collective";
}

/// Rank 1 aborts over it, rank 2 is in the next step: its collective is the other one.
TEST(Endings, TheRankWhoseCollectiveIsTheOddOneIsToBlame) {
  RunOutcome failed = killed();
  failed.ranks = {rank_at(3, Phase::kRecord, 13, "sum of a metric"),
                  rank_at(3, Phase::kRecord, 13, "sum of a metric", RankExit::How::kSignalled),
                  rank_at(4, Phase::kBackward, 13, "allreduce Float[8] SUM")};
  const auto place = [&] {
    const auto failure = judge::ending_of(failed, "").failure;
    return failure ? std::tuple(failure->step, failure->rank, failure->phase) : std::tuple(-1L, -1L, std::string());
  };
  EXPECT_EQ(place(), std::tuple(3, 2, "record"));
  failed.ranks[2].progress = {
      .step = 4, .phase = Phase::kBackward, .collectives = 14, .collective = "b", .previous = "a"};
  EXPECT_EQ(place(), std::tuple(3, 2, "record")) << "it is one further";
  failed.ranks[0].progress.collective = "c";
  EXPECT_EQ(place(), std::tuple(3, 1, "record")) << "nobody is with another";
}

TEST(Endings, ACollectiveThatTheOthersWhoAreDoneNeverCalled) {
  RunOutcome hung =
      hung_at({rank_at(3, Phase::kDone, 9, "barrier"), rank_at(3, Phase::kOptimizer, 10, "allreduce Float[1] SUM")});
  EXPECT_EQ(cause(hung), "control.rank_branch");
  hung.ranks[1] = rank_at(3, Phase::kOptimizer, 8, "allreduce Float[8] SUM");
  EXPECT_EQ(cause(hung), "proc.rank_stuck");
  hung.ranks[1] = rank_at(3, Phase::kOptimizer, 9, "barrier");
  EXPECT_EQ(cause(hung), "proc.rank_stuck") << "it waits in what the other has called, too";
}

TEST(Endings, ARankWithFewerSteps) {
  RunOutcome hung =
      hung_at({rank_at(3, Phase::kBackward, 10, "allreduce Float[8] SUM"), rank_at(2, Phase::kDone, 10, "barrier")});
  EXPECT_EQ(cause(hung), "data.uneven_inputs");
  const checks::Ending ending = judge::ending_of(hung, "");
  ASSERT_TRUE(ending.failure);
  EXPECT_EQ(ending.failure->step, 3) << "the one that it did not take";
  EXPECT_EQ(ending.failure->rank, 1);
}

TEST(Endings, TheRankThatIsInAnotherCollectiveIsToBlame) {
  RunOutcome failed = hung_at({rank_at(5, Phase::kData, 21, "allreduce Long[1] SUM"),
                               rank_at(5, Phase::kBackward, 21, "allreduce Float[8] SUM"),
                               rank_at(5, Phase::kData, 21, "allreduce Long[1] SUM")});
  failed.status = Outcome::kFailed;
  failed.culprit = 0;
  const auto blamed = [&] { return judge::rank_to_blame(failed, judge::suspects_in_ending(failed)); };
  EXPECT_EQ(blamed(), 1) << "rank 0 was the first to fail";
  failed.ranks[1] = failed.ranks[0];
  EXPECT_EQ(blamed(), 0);
}

/// Rank 2 was let through: its collective of that time is not known any more.
TEST(Endings, ARankFarAheadDoesNotHideTheOddOne) {
  RunOutcome hung = hung_at({rank_at(1, Phase::kForward, 7, "broadcast Int[1] from 0"),
                             rank_at(1, Phase::kForward, 6, "broadcast Int[5] from 0"),
                             rank_at(1, Phase::kBackward, 8, "allreduce Float[8] SUM"),
                             rank_at(1, Phase::kForward, 6, "allreduce Float[1] SUM")});
  hung.ranks[0].progress.previous = "broadcast Int[5] from 0";
  hung.ranks[2].progress.previous = "broadcast Int[1] from 0";
  hung.culprit.reset();
  const auto blamed = [&] { return judge::rank_to_blame(hung, judge::suspects_in_ending(hung)); };
  EXPECT_EQ(blamed(), 3);
  hung.ranks[1] = hung.ranks[3];
  EXPECT_EQ(blamed(), std::nullopt) << "two and two";
}

TEST(Endings, ACollectiveThatMetAnotherOne) {
  RunOutcome hung = hung_at({rank_at(4, Phase::kBackward, 14, "allreduce Float[8] SUM"),
                             rank_at(3, Phase::kOptimizer, 13, "allreduce Float[3] SUM")});
  hung.ranks[0].progress.before_step = 13;
  hung.ranks[0].progress.previous = "sum of a metric";
  EXPECT_EQ(cause(hung), "control.rank_branch");
  hung.ranks[0].progress.previous = "allreduce Float[3] SUM";
  EXPECT_EQ(cause(hung), "proc.rank_stuck");
}

TEST(Endings, ACollectiveThatTheOthersWentOnWithout) {
  RunOutcome hung = hung_at({rank_at(4, Phase::kBackward, 12, "allreduce Float[8] SUM"),
                             rank_at(3, Phase::kOptimizer, 10, "allreduce Float[1] SUM")});
  hung.ranks[0].progress.before_step = 9;
  EXPECT_EQ(cause(hung), "control.rank_branch");
  hung.ranks[0].progress.before_step = 10;
  EXPECT_EQ(cause(hung), "proc.rank_stuck") << "it hangs after what all have called";
}

TEST(Endings, ARankThatRanOutOfMemory) {
  RunOutcome lost = killed();
  lost.status = Outcome::kResource;
  EXPECT_EQ(cause(lost), "proc.rank_lost");
  EXPECT_FALSE(judge::ending_of(lost, "").failure) << "the machine may have given out";
  lost.ranks[1].progress = {};
  EXPECT_EQ(cause(lost), "") << "before the training";
  lost.culprit.reset();
  EXPECT_EQ(cause(lost), "");
}

TEST(Endings, AFileOfACheckpoint) {
  const Scratch scratch;
  const std::string file = (scratch.path() / "weights.safetensors").string();
  RunOutcome refused = killed();
  refused.status = Outcome::kResource;
  for (RankExit& rank : refused.ranks) rank.progress = {};
  EXPECT_EQ(cause(refused), "") << "the machine gave out";
  refused.ranks[0].failure = {.what = "damaged", .where = file, .damaged = true};
  EXPECT_EQ(cause(refused), "ckpt.truncated");
  refused.ranks[0].failure = {.what = "not there", .where = file, .missing = true};
  EXPECT_EQ(cause(refused), "") << "and is not there now";
  replace_file(file, "late");
  EXPECT_EQ(cause(refused), "ckpt.race");
  refused.ranks[0].failure->missing = false;
  EXPECT_EQ(cause(refused), "");
}

Json finishing(const Json& expect = Json()) {
  Json check = {{"that", "finishes"}, {"variants", {"a", "b"}}};
  if (!expect.is_null()) check["expect"] = expect;
  return {{"checks", {check}}};
}

/// The verdict over a pair whose second run ended like this.
judge::Verdict verdict_on(RunOutcome outcome, const Json& expect = Json()) {
  Judged judged(finishing(expect));
  outcome.run = judged.outcomes[1].run;
  judged.outcomes[1] = outcome;
  return judged.verdict();
}

/// The verdict over the second run alone.
judge::Verdict alone(RunOutcome outcome, const Json& expect) {
  Json scenario = finishing(expect);
  scenario["checks"][0]["variants"] = {"b"};
  Judged judged(scenario);
  outcome.run = judged.outcomes[1].run;
  judged.outcomes[1] = outcome;
  return judged.verdict();
}

TEST(Finishes, AgreesOnRunsThatEndWell) {
  const judge::Verdict verdict = Judged(finishing()).verdict();
  EXPECT_EQ(verdict.status(), VerdictStatus::kAgree);
  EXPECT_EQ(verdict.checks.at(0).result.compared, 2U);
}

TEST(Finishes, IsRedWithThePlaceAndTheCause) {
  const judge::Verdict verdict = verdict_on(killed());
  EXPECT_EQ(verdict.status(), VerdictStatus::kDivergence);
  const compare::Divergence& at = *verdict.checks.at(0).result.divergence;
  EXPECT_EQ(at.place_and_rank(), "step 2, in forward, rank 1");
  EXPECT_EQ(at.class_, scenario::Class::kLiveness);
  EXPECT_EQ(at.cause_id(), "proc.rank_lost");
  EXPECT_EQ(at.channel_name(), "");
  EXPECT_EQ(verdict.runs.at(0).suspects.at(0).cause, "proc.rank_lost");
}

TEST(Finishes, IsRedWhereEveryRankLeftEarly) {
  Judged judged(finishing());
  const std::int64_t last = judged.traces[1].ranks[0].steps.back().step;
  for (trace::Trace& rank : judged.traces[1].ranks) rank.steps.pop_back();
  const judge::Verdict verdict = judged.verdict();
  const compare::Divergence& at = *verdict.checks.at(0).result.divergence;
  EXPECT_EQ(at.step, last);
  EXPECT_EQ(at.class_, scenario::Class::kSemantic);
  ASSERT_EQ(verdict.runs.size(), 1U);
  EXPECT_EQ(verdict.runs[0].run, judged.plan.runs[1].name);
  EXPECT_EQ(verdict.runs[0].class_, scenario::Class::kSemantic);
}

TEST(Finishes, NoCheckAgreesOnTrainingsThatAllLeftEarly) {
  Judged judged(equal_pair());
  EXPECT_EQ(judged.verdict().status(), VerdictStatus::kAgree);
  Judged early(equal_pair());
  for (trace::RunTrace& run : early.traces) {
    for (trace::Trace& rank : run.ranks) rank.steps.pop_back();
  }
  EXPECT_EQ(early.verdict().checks.at(0).status, VerdictStatus::kAgree) << "they are equal as far as they go";
  EXPECT_EQ(early.verdict().status(), VerdictStatus::kDivergence);
}

TEST(Finishes, ExcusesWhatIsExpectedAndNothingElse) {
  const Json expect = {{"status", "divergence"}, {"reason", "killed"}, {"class", "liveness"}};
  const auto status = [&](const Json& more, const RunOutcome& outcome) {
    Json expectation = expect;
    expectation.update(more);
    return alone(outcome, expectation).status();
  };
  EXPECT_EQ(status(Json::object(), killed()), VerdictStatus::kAgree);
  EXPECT_EQ(status({{"cause", "proc.rank_lost"}, {"at", {{"step", 2}, {"rank", 1}}}}, killed()), VerdictStatus::kAgree);
  EXPECT_EQ(status({{"cause", "proc.rank_stuck"}}, killed()), VerdictStatus::kDivergence);
  EXPECT_EQ(status({{"at", {{"step", 1}}}}, killed()), VerdictStatus::kDivergence);
  EXPECT_EQ(status({{"at", {{"channel", "weight"}}}}, killed()), VerdictStatus::kDivergence);
  EXPECT_EQ(status({{"until", "2027-01-01"}}, killed()), VerdictStatus::kDivergence) << "no longer";
  EXPECT_EQ(Judged(finishing(expect)).verdict().status(), VerdictStatus::kDivergence) << "it ended well";
}

TEST(Finishes, ExcusesNoRunThatEndsOtherwise) {
  const Json expect = {{"status", "divergence"}, {"reason", "killed"}, {"cause", "proc.rank_lost"}};
  const auto status = [&](const RunOutcome& first, const RunOutcome& second) {
    Judged judged(finishing(expect));
    const RunOutcome outcomes[] = {first, second};
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string name = judged.outcomes[i].run;
      judged.outcomes[i] = outcomes[i];
      judged.outcomes[i].run = name;
    }
    return judged.verdict().status();
  };
  RunOutcome stuck = killed();
  stuck.status = Outcome::kHung;
  stuck.ranks[1].how = RankExit::How::kEnded;
  EXPECT_EQ(status(killed(), killed()), VerdictStatus::kAgree);
  EXPECT_EQ(status(killed(), stuck), VerdictStatus::kDivergence);
  EXPECT_EQ(status(stuck, killed()), VerdictStatus::kDivergence);
  EXPECT_EQ(status(killed(), {.status = Outcome::kFinished}), VerdictStatus::kDivergence);
  Judged anyhow(finishing({{"status", "divergence"}, {"reason", "killed"}}));
  const std::string name = anyhow.outcomes[0].run;
  anyhow.outcomes[0] = killed();
  anyhow.outcomes[0].run = name;
  EXPECT_EQ(anyhow.verdict().status(), VerdictStatus::kDivergence) << "the other one ended well";
}

TEST(Finishes, CannotTellOfARunThatTheMachineEnded) {
  const Json expect = {{"status", "divergence"}, {"reason", "anything"}};
  for (const Outcome outcome : {Outcome::kResource, Outcome::kSkipped, Outcome::kUnsupported}) {
    RunOutcome ended = killed();
    ended.status = outcome;
    EXPECT_EQ(verdict_on(ended, expect).status(), VerdictStatus::kInconclusive);
  }
  RunOutcome interrupted = killed();
  interrupted.status = Outcome::kInterrupted;
  EXPECT_EQ(verdict_on(interrupted, expect).status(), VerdictStatus::kInterrupted);
  EXPECT_EQ(verdict_on({.status = Outcome::kFailed}).status(), VerdictStatus::kDivergence) << "of ranks nobody knows";
}

TEST(Finishes, ExcusesNoOtherCheck) {
  Json both = finishing({{"status", "divergence"}, {"reason", "killed"}});
  both["checks"][0]["variants"] = {"b"};
  both["checks"].push_back({{"that", "equal"}, {"variants", {"a", "b"}}});
  Judged judged(both);
  RunOutcome outcome = killed();
  outcome.run = judged.outcomes[1].run;
  judged.outcomes[1] = outcome;
  EXPECT_EQ(judged.verdict().status(), VerdictStatus::kInconclusive) << "there is nothing to hold against \"a\"";
}

TEST(Finishes, ATraceThatIsLostIsNoEnd) {
  Judged judged(finishing());
  judged.evidence();
  std::filesystem::remove(judged.folder(1) / "rank1.jsonl");
  EXPECT_EQ(judged.verdict().status(), VerdictStatus::kInconclusive);
}

}  // namespace
}  // namespace lockstep::test
