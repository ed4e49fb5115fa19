// read_run: the files of all ranks of one run.
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/trace/line.h"
#include "harness/trace/reader.h"

#include "tests/support/allocation.h"
#include "tests/support/support.h"
#include "tests/trace/samples.h"

namespace lockstep::trace {
namespace {

using lockstep::test::Scratch;
using test::sample_header;
using test::write_sample;

Problem damage_of(const std::filesystem::path& directory) {
  try {
    read_run(directory, "w2/0");
  } catch (const DamagedFile& error) {
    return error.problem();
  }
  ADD_FAILURE() << "not refused";
  return {};
}

void write_ranks(const Scratch& scratch, std::int64_t world_size) {
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    write_sample(scratch.path() / file_name_of_rank(rank), sample_header(rank, world_size));
  }
}

TEST(RunReader, ReadsEveryRankInOrder) {
  const Scratch scratch;
  write_ranks(scratch, 12);
  const RunTrace run = read_run(scratch.path(), "w12/0");
  EXPECT_EQ(run.run, "w12/0");
  ASSERT_EQ(run.world_size(), 12);
  for (std::int64_t rank = 0; rank < 12; ++rank) EXPECT_EQ(run.ranks[static_cast<std::size_t>(rank)].rank, rank);
}

TEST(RunReader, FileOfARankIsNamedAfterIt) {
  EXPECT_EQ(file_name_of_rank(0), "rank0.jsonl");
  EXPECT_EQ(file_name_of_rank(12), "rank12.jsonl");
}

TEST(RunReader, MissingRankIsLostEvidence) {
  for (const std::int64_t missing : {1, 2}) {
    const Scratch scratch;
    write_ranks(scratch, 3);
    const auto file = scratch.path() / file_name_of_rank(missing);
    std::filesystem::remove(file);
    const Problem problem = damage_of(scratch.path());
    EXPECT_EQ(problem.where, file.string());
    EXPECT_EQ(problem.what, "the trace of rank " + std::to_string(missing) + " is missing");
  }
}

TEST(RunReader, ARankTooManyIsRefused) {
  const Scratch scratch;
  write_ranks(scratch, 2);
  write_sample(scratch.path() / "rank2.jsonl", sample_header(2, 3));
  const Problem problem = damage_of(scratch.path());
  EXPECT_EQ(problem.what, "there are more traces than ranks");
  EXPECT_EQ(problem.where, (scratch.path() / "rank2.jsonl").string());
  std::filesystem::rename(scratch.path() / "rank2.jsonl", scratch.path() / "rank10.jsonl");
  EXPECT_EQ(damage_of(scratch.path()).where, (scratch.path() / "rank10.jsonl").string());
  std::filesystem::rename(scratch.path() / "rank10.jsonl", scratch.path() / "rank2.failure.json");
  EXPECT_EQ(read_run(scratch.path(), "w2/0").world_size(), 2) << "other files are none of its matters";
}

TEST(RunReader, RanksOfAnotherRunAreRefused) {
  for (const char* key : {"scenario", "variant", "train_digest"}) {
    const Scratch scratch;
    write_ranks(scratch, 2);
    Json header = sample_header(1, 2);
    header[key] = "other";
    std::filesystem::remove(scratch.path() / "rank1.jsonl");
    write_sample(scratch.path() / "rank1.jsonl", header);
    const Problem problem = damage_of(scratch.path());
    EXPECT_EQ(problem.where, (scratch.path() / "rank1.jsonl").string());
    EXPECT_EQ(problem.what, std::string("the ranks in one directory belong to different runs: ") + key + " differs");
    EXPECT_EQ(problem.actual, "\"other\"");
  }
}

TEST(RunReader, FolderWithoutAFirstRankIsNoRun) {
  const Scratch scratch;
  EXPECT_THROW(read_run(scratch.path(), "w2/0"), InputError);
  EXPECT_THROW(read_run(scratch.path() / "none", "w2/0"), InputError);
}

TEST(RunReader, SwappedRanksAreRefused) {
  const Scratch scratch;
  write_ranks(scratch, 3);
  std::filesystem::rename(scratch.path() / "rank1.jsonl", scratch.path() / "x");
  std::filesystem::rename(scratch.path() / "rank2.jsonl", scratch.path() / "rank1.jsonl");
  std::filesystem::rename(scratch.path() / "x", scratch.path() / "rank2.jsonl");
  const Problem problem = damage_of(scratch.path());
  EXPECT_EQ(problem.where, (scratch.path() / "rank1.jsonl").string());
  EXPECT_EQ(problem.expected, "rank 1 of 3");
  EXPECT_EQ(problem.actual, "rank 2 of 3");
}

TEST(RunReader, RankOfAnotherWorldIsRefused) {
  const Scratch scratch;
  write_sample(scratch.path() / "rank0.jsonl", sample_header(0, 2));
  write_sample(scratch.path() / "rank1.jsonl", sample_header(1, 4));
  EXPECT_EQ(damage_of(scratch.path()).actual, "rank 1 of 4");
}

TEST(RunReader, FirstRankOfAnotherPlaceIsRefused) {
  const Scratch scratch;
  write_sample(scratch.path() / "rank0.jsonl", sample_header(1, 2));
  EXPECT_EQ(damage_of(scratch.path()).expected, "rank 0 of 2");
}

TEST(RunReader, EmptyRankIsThereButTorn) {
  const Scratch scratch;
  write_ranks(scratch, 3);
  scratch.write("rank1.jsonl", "");
  const RunTrace run = read_run(scratch.path(), "w3/0");
  ASSERT_EQ(run.world_size(), 3);
  EXPECT_TRUE(run.ranks[0].complete);
  EXPECT_FALSE(run.ranks[1].complete);
  EXPECT_TRUE(run.ranks[2].complete);
}

TEST(RunReader, TornFirstRankIsTornNotMissing) {
  const Scratch scratch;
  write_ranks(scratch, 2);
  const std::string whole = read_file(scratch.path() / "rank0.jsonl");
  scratch.write("rank0.jsonl", whole.substr(0, whole.size() - 1));
  const RunTrace run = read_run(scratch.path(), "w2/0");
  ASSERT_EQ(run.world_size(), 2);
  EXPECT_FALSE(run.ranks[0].complete);
  EXPECT_TRUE(run.ranks[1].complete);
}

TEST(RunReader, AbsurdWorldSizeNeitherHangsNorAllocates) {
  const Scratch scratch;
  write_sample(scratch.path() / "rank0.jsonl", sample_header(0, 1'000'000'000'000'000'000));
  lockstep::test::forget_allocations();
  EXPECT_EQ(damage_of(scratch.path()).what, "the trace of rank 1 is missing");
  EXPECT_LT(lockstep::test::largest_allocation(), 1U << 16);
}

}  // namespace
}  // namespace lockstep::trace
