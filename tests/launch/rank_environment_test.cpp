// What a rank finds when it starts: place, environment, current directory.

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/launch/launcher.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using Status = RunOutcome::Status;

/// NAME=value entries of a block as /proc shows it, in its order.
std::vector<std::string> entries(const std::string& block) {
  std::vector<std::string> found;
  std::istringstream stream(block);
  for (std::string entry; std::getline(stream, entry, '\0');) found.push_back(entry);
  return found;
}

std::vector<std::string> names(const std::vector<std::string>& entries) {
  std::vector<std::string> found;
  for (const std::string& entry : entries) found.push_back(entry.substr(0, entry.find('=')));
  return found;
}

/// What each rank of a job finds in its environment.
std::vector<std::vector<std::string>> environments_of(const Scratch& scratch, Job job) {
  job.command = {"/bin/cat", "/proc/self/environ"};
  EXPECT_EQ(run_one(job).status, Status::kFinished);
  std::vector<std::vector<std::string>> found;
  for (std::int64_t rank = 0; rank < job.world_size; ++rank) {
    found.push_back(entries(scratch.text(job.run, "rank" + std::to_string(rank) + ".log")));
  }
  return found;
}

std::string value_of(const std::vector<std::string>& entries, const std::string& name) {
  for (const std::string& entry : entries) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "(not set)";
}

TEST(RankEnvironment, EveryRankHasItsOwnPauses) {
  const Scratch scratch;
  Job job = scratch.job("late", 3, {});
  job.step_delay_ms = {0, 15};
  const auto found = environments_of(scratch, job);
  EXPECT_EQ(value_of(found[0], "LOCKSTEP_STEP_DELAY_MS"), "(not set)");
  EXPECT_EQ(value_of(found[1], "LOCKSTEP_STEP_DELAY_MS"), "15");
  EXPECT_EQ(value_of(found[2], "LOCKSTEP_STEP_DELAY_MS"), "(not set)");
}

TEST(RankEnvironment, RanksStartInTheWorkDirectory) {
  const Scratch scratch;
  Job job = scratch.job("place", 2, {});
  job.command = {"/bin/pwd"};
  job.work_directory = "deep/er";
  EXPECT_EQ(run_one(job).log_tail, (job.directory / "deep/er").string() + "\n");
}

TEST(RankEnvironment, VariablesOfOneRankGoOverThoseOfAll) {
  const Scratch scratch;
  Job job = scratch.job("own", 3, {});
  job.environment = {{"LOCKSTEP_TEST_A", "all"}, {"LOCKSTEP_TEST_B", "all"}};
  job.rank_environment = {{1, {{"LOCKSTEP_TEST_A", "one"}, {"LOCKSTEP_TEST_C", "one"}, {"RANK", "9"}}}};
  const auto ranks = environments_of(scratch, job);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(value_of(ranks[rank], "LOCKSTEP_TEST_A"), rank == 1 ? "one" : "all");
    EXPECT_EQ(value_of(ranks[rank], "LOCKSTEP_TEST_B"), "all");
    EXPECT_EQ(value_of(ranks[rank], "LOCKSTEP_TEST_C"), rank == 1 ? "one" : "(not set)");
    EXPECT_EQ(value_of(ranks[rank], "RANK"), std::to_string(rank)) << "its place is the launcher's";
  }
}

TEST(RankEnvironment, RanksLearnTheirPlace) {
  const Scratch scratch;
  ::setenv("RANK", "17", 1);
  ::setenv("LOCKSTEP_LISTEN_FD", "3", 1);
  const auto ranks = environments_of(scratch, scratch.job("place", 3, {}));
  ::unsetenv("RANK");
  ::unsetenv("LOCKSTEP_LISTEN_FD");
  for (std::size_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(value_of(ranks[rank], "RANK"), std::to_string(rank));
    EXPECT_EQ(value_of(ranks[rank], "LOCAL_RANK"), std::to_string(rank));
    EXPECT_EQ(value_of(ranks[rank], "WORLD_SIZE"), "3");
    EXPECT_EQ(value_of(ranks[rank], "LOCAL_WORLD_SIZE"), "3");
    EXPECT_EQ(value_of(ranks[rank], "MASTER_ADDR"), "127.0.0.1");
    EXPECT_EQ(value_of(ranks[rank], "MASTER_PORT"), value_of(ranks[0], "MASTER_PORT"));
    EXPECT_EQ(value_of(ranks[rank], "LOCKSTEP_RUN_ID"), value_of(ranks[0], "LOCKSTEP_RUN_ID"));
    EXPECT_EQ(value_of(ranks[rank], "LOCKSTEP_LISTEN_FD") == "(not set)", rank != 0);
  }
}

TEST(RankEnvironment, EnvironmentIsOursAndTheJobsInOrder) {
  const Scratch scratch;
  ::setenv("LAUNCH_TEST", "ours", 1);
  ::setenv("LAUNCH_TEST_2", "ours", 1);
  Job job = scratch.job("up", 1, {});
  job.environment = {{"LAUNCH_TEST", "the job's"}, {"AAA", ""}, {"zzz", "a=b"}};
  const std::vector<std::string> up = environments_of(scratch, job)[0];
  job = scratch.job("down", 1, {});
  job.environment = {{"LAUNCH_TEST", "the job's"}, {"AAA", ""}, {"zzz", "a=b"}};
  job.reverse_environment = true;
  const std::vector<std::string> down = environments_of(scratch, job)[0];
  ::unsetenv("LAUNCH_TEST");
  ::unsetenv("LAUNCH_TEST_2");

  EXPECT_EQ(value_of(up, "LAUNCH_TEST"), "the job's");
  EXPECT_EQ(value_of(up, "LAUNCH_TEST_2"), "ours");
  EXPECT_EQ(value_of(up, "zzz"), "a=b");
  EXPECT_EQ(value_of(up, "PATH"), ::getenv("PATH"));
  EXPECT_TRUE(std::ranges::is_sorted(names(up)));
  EXPECT_TRUE(std::ranges::is_sorted(names(down), std::greater<>()));
  std::vector<std::string> reversed = names(down);
  std::ranges::reverse(reversed);
  EXPECT_EQ(reversed, names(up));
}

TEST(RankEnvironment, RelativeCommandMeansOurDirectoryNotTheRanks) {
  const Scratch scratch;
  Job job = scratch.job("relative", 1, {});
  job.command = {std::filesystem::relative("/bin/pwd").string()};
  EXPECT_EQ(run_one(job).log_tail, (job.directory / "work").string() + "\n");
}

}  // namespace
}  // namespace lockstep::launch
