// Traces that C programs record through the library, as `lockstep show` and `lockstep diff` read them.
#include <filesystem>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/record/rank_recorder.h"
#include "harness/trace/reader.h"

#include "tests/support/support.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using trace::Channel;

class Recording : public ::testing::Test {
 protected:
  Outcome record(const std::string& deed, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> command = {PROGRAM_recording, deed, run(deed)};
    command.insert(command.end(), more.begin(), more.end());
    return run_program(command, 60);
  }

  /// Both ranks; rank 1 flips one bit of a weight in this step.
  fs::path record_ranks(const std::string& name, const std::string& flipped_step) const {
    for (const char* rank : {"0", "1"}) {
      const Outcome outcome =
          run_program({PROGRAM_recording, "rank", run(name), rank, std::string(rank) == "1" ? flipped_step : "-2"}, 60);
      EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
    }
    return run(name);
  }

  std::string run(const std::string& name) const { return (scratch_.path() / name).string(); }

  static Outcome lockstep(std::vector<std::string> words) {
    words.insert(words.begin(), lockstep_program());
    return run_program(words, 60);
  }
  static Json diff(const fs::path& left, const fs::path& right) {
    return Json::parse(lockstep({"diff", left, right, "--json", "-"}).out);
  }

  Scratch scratch_;
};

TEST_F(Recording, EqualRunsAgreeInEveryRecord) {
  const Json result = diff(record_ranks("a", "-2"), record_ranks("b", "-2"));
  EXPECT_EQ(result["status"], "agree") << result.dump(1);
  EXPECT_EQ(result["records_compared"], 2 * 4 * 6);  // ranks, steps, records of a step
}

TEST_F(Recording, OneFlippedBitIsFoundAtItsStepTensorAndRank) {
  const Json result = diff(record_ranks("a", "-2"), record_ranks("b", "1"));
  EXPECT_EQ(result["status"], "divergence");
  const Json first = result["first_divergence"];
  EXPECT_EQ(first["step"], 1) << result.dump(1);
  EXPECT_EQ(first["channel"], "weight");
  EXPECT_EQ(first["tensor"], "fc.weight");
  EXPECT_EQ(first["rank"], 1);
}

TEST_F(Recording, DiffSaysWhyNoCauseIsNamed) {
  const Outcome text = lockstep({"diff", record_ranks("a", "-2"), record_ranks("b", "1")});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_NE(text.out.find("causes are not searched"), std::string::npos) << text.out;
}

TEST_F(Recording, ShowPrintsItsRecords) {
  const Outcome text = lockstep({"show", record_ranks("a", "-2")});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  for (const char* part : {"fc.weight", "allreduce Float[4] SUM", "24 records, 4 steps, complete"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
}

// The bytes of the library's trace are those that the harness's own recorder writes.
TEST_F(Recording, TheTraceIsTheHarnesssOwn) {
  const fs::path ours = scratch_.path() / "ours";
  const auto channels = trace::all_channels();
  record::Recorder recorder(ours, 1, 2, {{"samples", 8}}, {.channels = {channels.begin(), channels.end()}});
  for (std::int64_t step = -1; step < 3; ++step) {
    const std::int64_t size = 4, ids[] = {2 * step + 1, 2 * step + 5};
    const float values[] = {1.5F, -2, static_cast<float>(step), 0};
    const record::TensorView tensor{
        .data = values, .dtype = trace::DType::kFloat32, .shape = {&size, 1}, .strides = {}};
    recorder.begin_step(step);
    recorder.integers(Channel::kSamples, "ids", ids);
    recorder.number(Channel::kLoss, "local", 0.25 * static_cast<double>(step + 1));
    recorder.tensor(Channel::kGradient, "fc.weight", tensor);
    recorder.tensor(Channel::kWeight, "fc.weight", tensor);
    recorder.integer(Channel::kLedger, "updates", step + 1);
    recorder.text(Channel::kCollective, "0", "allreduce Float[4] SUM");
    recorder.end_step();
  }
  recorder.finish();
  EXPECT_EQ(read_file(record_ranks("a", "-2") / "rank1.jsonl"), read_file(ours));
}

TEST_F(Recording, ATrainingKilledInAStepLeavesATornTrace) {
  EXPECT_EQ(record("die").exit_code, 128 + 9);
  const trace::Trace torn = trace::read_trace(fs::path(run("die")) / "rank0.jsonl");
  EXPECT_FALSE(torn.complete);
  EXPECT_EQ(torn.steps.size(), 2U);  // step 1 had not ended
  const Outcome shown = lockstep({"show", run("die")});
  EXPECT_EQ(shown.exit_code, 4);
  EXPECT_NE(shown.out.find("torn"), std::string::npos) << shown.out;
  EXPECT_EQ(diff(run("die"), run("die"))["status"], "inconclusive");
}

TEST_F(Recording, WithoutCloseTheTraceIsTorn) {
  EXPECT_EQ(record("leave").exit_code, 0);
  const trace::Trace torn = trace::read_trace(fs::path(run("leave")) / "rank0.jsonl");
  EXPECT_FALSE(torn.complete);
  EXPECT_EQ(torn.steps.size(), 1U);
}

TEST_F(Recording, AFullDiskIsAnErrorOfEveryCallThatFollows) {
  const Outcome outcome = record("full");
  EXPECT_EQ(outcome.exit_code, 0);
  for (const char* part : {"end_step 2", "begin_step 2", "close 2", "cannot write a file", "rank0.jsonl"})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part << "\n" << outcome.out;
  EXPECT_FALSE(trace::read_trace(fs::path(run("full")) / "rank0.jsonl").complete);
}

TEST_F(Recording, ThreadsShareARecorder) {
  const Outcome outcome = record("threads");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  const trace::Trace trace = trace::read_trace(fs::path(run("threads")) / "rank0.jsonl");
  ASSERT_TRUE(trace.complete);
  std::set<std::string> names;
  for (const trace::Record& record : trace.steps.at(0).records) names.insert(record.name);
  EXPECT_EQ(names.size(), 4U * 2500U);
  EXPECT_EQ(trace.steps[0].records.size(), 4U * 2500U);
}

TEST_F(Recording, AForkedChildHarmsNothing) {
  const Outcome outcome = record("fork");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out;
  EXPECT_EQ(outcome.out, "child 0\n");
  const trace::Trace trace = trace::read_trace(fs::path(run("fork")) / "rank0.jsonl");
  EXPECT_TRUE(trace.complete);
  EXPECT_EQ(trace.steps.at(0).records.size(), 1U);
}

TEST_F(Recording, TheExampleShowsAnotherRateAtTheFirstWeight) {
  for (const char* rate : {"0.5", "0.25"}) {
    const Outcome outcome = run_program({PROGRAM_example, run(rate), rate}, 60);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  }
  EXPECT_EQ(run_program({PROGRAM_example, run("again")}, 60).exit_code, 0);
  EXPECT_EQ(diff(run("0.5"), run("again"))["status"], "agree");
  const Json first = diff(run("0.5"), run("0.25"))["first_divergence"];
  EXPECT_EQ(first["step"], 0);
  EXPECT_EQ(first["channel"], "weight");
}

TEST_F(Recording, TheExampleRefusesAFolderThatIsUsed) {
  EXPECT_EQ(run_program({PROGRAM_example, run("used")}, 60).exit_code, 0);
  const std::string before = read_file(fs::path(run("used")) / "rank0.jsonl");
  const Outcome outcome = run_program({PROGRAM_example, run("used")}, 60);
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_NE(outcome.err.find("a trace already exists"), std::string::npos) << outcome.err;
  EXPECT_EQ(read_file(fs::path(run("used")) / "rank0.jsonl"), before);
}

}  // namespace
}  // namespace lockstep::test
