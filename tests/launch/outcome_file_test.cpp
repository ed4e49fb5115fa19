#include "harness/launch/outcome_file.h"

#include <csignal>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "harness/base/error.h"
#include "harness/base/files.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

bool same(const RankExit& a, const RankExit& b) {
  return a.how == b.how && a.code == b.code && a.signal == b.signal && a.after_s == b.after_s &&
         a.progress == b.progress && a.failure == b.failure && a.log == b.log;
}

RunOutcome outcome_in(const std::filesystem::path& folder) {
  RunOutcome outcome{.run = "s/v/0",
                     .status = RunOutcome::Status::kHung,
                     .culprit = 1,
                     .why = "rank 1 made no progress",
                     .log_tail = "the \xC3\xBCnd",
                     .wall_s = 0.1};
  outcome.ranks = {{.how = RankExit::How::kExited,
                    .code = 5,
                    .after_s = 1.25,
                    .progress = {.step = 3,
                                 .phase = Phase::kBackward,
                                 .collectives = 7,
                                 .collective = "allreduce Float[650] SUM",
                                 .previous = "barrier",
                                 .before_step = 6,
                                 .beats = 30},
                    .failure = WorkerFailure{.what = "cut off", .where = "/w", .damaged = true, .missing = false},
                    .log = folder / "rank0.log"},
                   {.how = RankExit::How::kEnded, .log = folder / "rank1.log"}};
  outcome.command_failure = WorkerFailure{.what = "no port", .at_ns = 7, .nccl_interfaces = "eth9"};
  return outcome;
}

/// Whole traces beside a failure that could not be written down must not be taken for a run that ended well.
TEST(OutcomeFile, AFailureLeavesASignOnAFullDisk) {
  const Scratch scratch;
  const auto write_without_space = [&](RunOutcome::Status status) {
    return wait_for(fork_supervisor([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit none{0, 0};
      ::setrlimit(RLIMIT_FSIZE, &none);
      RunOutcome outcome = outcome_in(scratch.path());
      outcome.status = status;
      try {
        write_outcome(scratch.path(), outcome);
      } catch (const ResourceError&) {
        return 4;
      }
      return 0;
    }));
  };
  EXPECT_EQ(write_without_space(RunOutcome::Status::kFinished), 4);
  EXPECT_FALSE(is_there(outcome_path(scratch.path())));
  EXPECT_EQ(write_without_space(RunOutcome::Status::kFailed), 4);
  EXPECT_TRUE(is_there(outcome_path(scratch.path())));
  EXPECT_FALSE(read_outcome(scratch.path()));
}

TEST(OutcomeFile, GivesBackWhatWasWritten) {
  const Scratch scratch;
  for (const auto status :
       {RunOutcome::Status::kFinished, RunOutcome::Status::kFailed, RunOutcome::Status::kHung,
        RunOutcome::Status::kRefused, RunOutcome::Status::kResource, RunOutcome::Status::kUnsupported,
        RunOutcome::Status::kSkipped, RunOutcome::Status::kInterrupted, RunOutcome::Status::kUnknown}) {
    RunOutcome written = outcome_in(scratch.path());
    written.status = status;
    written.restarts = {"rank 1 was killed"};
    write_outcome(scratch.path(), written);
    const std::optional<RunOutcome> read = read_outcome(scratch.path());
    ASSERT_TRUE(read);
    EXPECT_EQ(read->run, written.run);
    EXPECT_EQ(read->status, status);
    EXPECT_EQ(read->culprit, written.culprit);
    EXPECT_EQ(read->why, written.why);
    EXPECT_EQ(read->restarts, written.restarts);
    EXPECT_EQ(read->log_tail, written.log_tail);
    EXPECT_EQ(read->command_failure, written.command_failure);
    EXPECT_EQ(read->wall_s, written.wall_s);
    ASSERT_EQ(read->ranks.size(), 2U);
    for (std::size_t rank = 0; rank < 2; ++rank) EXPECT_TRUE(same(read->ranks[rank], written.ranks[rank])) << rank;
  }
}

TEST(OutcomeFile, IsNothingWhereItIsMissingCutOffOrStrange) {
  const Scratch scratch;
  EXPECT_FALSE(read_outcome(scratch.path()));
  write_outcome(scratch.path(), outcome_in(scratch.path()));
  const std::string whole = read_file(outcome_path(scratch.path()));
  for (const std::size_t length : {std::size_t{0}, whole.size() / 3, whole.size() - 3}) {
    replace_file(outcome_path(scratch.path()), whole.substr(0, length));
    EXPECT_FALSE(read_outcome(scratch.path())) << length;
  }
  std::string other = whole;
  other.replace(other.find("hung"), 4, "sang");
  replace_file(outcome_path(scratch.path()), other);
  EXPECT_FALSE(read_outcome(scratch.path()));
}

}  // namespace
}  // namespace lockstep::launch
