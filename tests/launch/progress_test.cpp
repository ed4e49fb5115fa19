#include "harness/launch/progress.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/launch/worker_failure.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

TEST(Progress, MissingFileReadsAsNotStarted) { EXPECT_EQ(read_progress("/nowhere/rank0.progress"), Progress{}); }

TEST(Progress, ShortOrForeignFileReadsAsNotStarted) {
  const Scratch scratch;
  replace_file(scratch.path() / "short", std::string(159, '\1'));
  replace_file(scratch.path() / "foreign", std::string(160, '\1'));
  EXPECT_EQ(read_progress(scratch.path() / "short"), Progress{});
  EXPECT_EQ(read_progress(scratch.path() / "foreign"), Progress{});
}

TEST(Progress, FreshWriterReadsAsNotStarted) {
  const Scratch scratch;
  const ProgressWriter writer(scratch.path() / "p");
  EXPECT_EQ(read_progress(scratch.path() / "p"), Progress{});
  EXPECT_EQ(std::filesystem::file_size(scratch.path() / "p"), 160u);
}

TEST(Progress, LastReportIsReadAndOutlivesTheWriter) {
  const Scratch scratch;
  const std::filesystem::path path = progress_path(scratch.path(), 3);
  EXPECT_EQ(path.filename(), "rank3.progress");
  {
    ProgressWriter writer(path);
    writer.report(0, Phase::kData);
    EXPECT_EQ(read_progress(path), (Progress{.step = 0, .phase = Phase::kData, .beats = 1}));
    writer.report(0, Phase::kForward);
    writer.report(7, Phase::kRecord);
  }
  EXPECT_EQ(read_progress(path), (Progress{.step = 7, .phase = Phase::kRecord, .beats = 3}));
}

TEST(WorkerFailure, IsReadAsItWasWritten) {
  const Scratch scratch;
  const std::filesystem::path path = failure_path(scratch.path(), 3);
  EXPECT_EQ(path.filename(), "rank3.failure.json");
  EXPECT_EQ(read_failure(path), std::nullopt);
  const WorkerFailure failure{.what = "a \"file\"\n\xff", .where = "/x", .damaged = true, .missing = false};
  write_failure(path, failure);
  const auto read = read_failure(path);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->where, failure.where);
  EXPECT_TRUE(read->damaged && !read->missing);
  for (const char* damaged : {"", "{", "[]", "{\"what\": 1}"}) {
    replace_file(path, damaged);
    EXPECT_EQ(read_failure(path), std::nullopt) << damaged;
  }
  write_failure("/nowhere/rank0.failure.json", failure);
}

TEST(Progress, TheLastCollectiveIsNamed) {
  const Scratch scratch;
  ProgressWriter writer(scratch.path() / "p");
  EXPECT_EQ(read_progress(scratch.path() / "p").collective, "");
  writer.count_collective("allreduce Float[650] SUM");
  EXPECT_EQ(read_progress(scratch.path() / "p"),
            (Progress{.collectives = 1, .collective = "allreduce Float[650] SUM", .beats = 1}));
  writer.report(2, Phase::kForward);
  writer.count_collective("barrier");
  EXPECT_EQ(read_progress(scratch.path() / "p").collective, "barrier");
  EXPECT_EQ(read_progress(scratch.path() / "p").previous, "allreduce Float[650] SUM");
  writer.count_collective(std::string(100, 'x'));
  EXPECT_EQ(read_progress(scratch.path() / "p").collective, std::string(47, 'x'));
}

TEST(Progress, CollectivesBeforeAStepAreKnown) {
  const Scratch scratch;
  ProgressWriter writer(scratch.path() / "p");
  const auto before_step = [&] { return read_progress(scratch.path() / "p").before_step; };
  writer.count_collective("broadcast");
  writer.report(0, Phase::kForward);
  EXPECT_EQ(before_step(), 1U);
  writer.count_collective("allreduce");
  writer.report(0, Phase::kBackward);
  writer.report(0, Phase::kOptimizer);
  EXPECT_EQ(before_step(), 1U);
  writer.count_collective("allreduce");
  writer.report(1, Phase::kForward);
  EXPECT_EQ(before_step(), 3U);
}

TEST(Progress, ReaderNeverSeesHalfAReport) {
  const Scratch scratch;
  const std::filesystem::path path = scratch.path() / "p";
  ProgressWriter writer(path);
  std::atomic<bool> stop = false;
  std::thread writing([&] {
    for (std::int64_t step = 0; !stop; ++step) writer.report(step, static_cast<Phase>(step % 7));
  });
  std::uint64_t last = 0;
  for (int i = 0; i < 4000; ++i) {
    const Progress seen = read_progress(path);
    if (seen.beats == 0) continue;
    ASSERT_EQ(seen.step, static_cast<std::int64_t>(seen.beats) - 1);
    ASSERT_EQ(static_cast<std::int64_t>(seen.phase), seen.step % 7);
    ASSERT_GE(seen.beats, last);
    last = seen.beats;
  }
  stop = true;
  writing.join();
}

TEST(Progress, WriterWithoutAPlaceIsAResourceError) {
  EXPECT_THROW(ProgressWriter("/nowhere/rank0.progress"), ResourceError);
}

TEST(Progress, EveryPhaseHasItsName) {
  EXPECT_EQ(name_of(Phase::kStart), "start");
  EXPECT_EQ(name_of(Phase::kOptimizer), "optimizer");
  EXPECT_EQ(name_of(Phase::kDone), "done");
}

}  // namespace
}  // namespace lockstep::launch
