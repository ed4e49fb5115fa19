#include "harness/launch/progress.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

TEST(Progress, MissingFileReadsAsNotStarted) { EXPECT_EQ(read_progress("/nowhere/rank0.progress"), Progress{}); }

TEST(Progress, ShortOrForeignFileReadsAsNotStarted) {
  const Scratch scratch;
  replace_file(scratch.path() / "short", std::string(63, '\1'));
  replace_file(scratch.path() / "foreign", std::string(64, '\1'));
  EXPECT_EQ(read_progress(scratch.path() / "short"), Progress{});
  EXPECT_EQ(read_progress(scratch.path() / "foreign"), Progress{});
}

TEST(Progress, FreshWriterReadsAsNotStarted) {
  const Scratch scratch;
  const ProgressWriter writer(scratch.path() / "p");
  EXPECT_EQ(read_progress(scratch.path() / "p"), Progress{});
  EXPECT_EQ(std::filesystem::file_size(scratch.path() / "p"), 64u);
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
