// Causes in the file that was read, of which the recorder tells the tensors: a mixture of updates, weights that it
// lacks.
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/loaded_file_causes.h"

#include "tests/support/tiny/suspected.h"

namespace lockstep::test {
namespace {

using diagnosis::suspects_in_resumption;
using trace::Channel;
using trace::CheckpointFile;

constexpr std::int64_t kSaved = 4;

Json stopped() {
  return {{"train", {{"steps", 10}, {"data", {{"size", 36}}}}},
          {"variants",
           {{"straight", Json::object()},
            {"half", {{"train", {{"steps", kSaved + 1}, {"checkpoint", {{"save_after", kSaved + 1}}}}}}},
            {"resumed", {{"train", {{"checkpoint", {{"load", {{"from", "half"}}}}}}}}}}},
          {"checks",
           {{{"that", "resumes"}, {"straight", "straight"}, {"interrupted", "resumed"}},
            {{"that", "resumes"}, {"straight", "straight"}, {"interrupted", "resumed"}, {"on", {"weight"}}}}}};
}

const std::vector<std::string> kWeights = {"fc.bias", "fc.weight"};

/// A program that was resumed from a file; what the file holds is loaded.
class LoadedFile : public testing::Test {
 protected:
  LoadedFile() {
    bench_.run("resumed") = resumed_from(bench_.run("straight"), kSaved + 1, "resumed/0");
    bench_.run("half") = bench_.run("straight");
    bench_.run("half").run = "half/0";
    for (const std::string& name : kWeights) {
      hold(0, Channel::kWeight, name, kSaved);
      hold(0, Channel::kOptimizer, name + ".momentum_buffer", kSaved);
    }
  }

  /// A file holds a tensor of a step, and the resumed run has it after loading.
  void hold(std::size_t file, Channel channel, const std::string& name, std::int64_t step) {
    const trace::Record& record = at(bench_.run("straight"), 0, step, channel, name);
    while (files_.size() <= file) {
      files_.push_back({.written = true,
                        .updates = 7,
                        .sha256 = std::to_string(files_.size()),
                        .name = "file" + std::to_string(files_.size()),
                        .tensors = std::map<std::string, std::string>()});
    }
    (*files_[file].tensors)["x." + name] = to_text(record.digest);
    load(record);
  }

  void load(const trace::Record& record) {
    for (const std::int64_t rank : {0, 1}) put(bench_.run("resumed"), rank, kSaved, record);
  }

  std::vector<compare::Suspect> suspects(std::size_t check = 0) {
    bench_.run("half").files = files_;
    bench_.run("resumed").files.clear();
    for (const CheckpointFile& file : files_) bench_.run("resumed").files.push_back({.sha256 = file.sha256});
    return suspects_of(bench_, suspects_in_resumption, check);
  }

  std::string named() { return first_cause(suspects()); }

  Bench bench_{stopped()};
  std::vector<CheckpointFile> files_;
};

TEST_F(LoadedFile, NothingIsWrongWithAWholeOne) {
  EXPECT_EQ(named(), "");
  EXPECT_TRUE(agrees(bench_.check()));
}

TEST_F(LoadedFile, WeightsOfTwoUpdates) {
  hold(0, Channel::kWeight, "fc.bias", kSaved + 1);
  const auto found = suspects();
  ASSERT_EQ(first_cause(found), "ckpt.mixed_updates");
  EXPECT_NE(found[0].evidence[0].find("file0 holds tensors as half/0 had them at different times: 3 after step 4"),
            std::string::npos)
      << found[0].evidence[0];
  EXPECT_NE(found[0].evidence[0].find("1 after step 5 (x.fc.bias)"), std::string::npos) << found[0].evidence[0];
}

TEST_F(LoadedFile, AStateYoungerThanTheWeights) {
  for (const std::string& name : kWeights) hold(0, Channel::kOptimizer, name + ".momentum_buffer", kSaved + 1);
  EXPECT_EQ(named(), "ckpt.mixed_updates");
}

TEST_F(LoadedFile, TwoFilesOfDifferentUpdates) {
  files_.clear();
  for (const std::string& name : kWeights) {
    hold(0, Channel::kWeight, name, kSaved);
    hold(1, Channel::kOptimizer, name + ".momentum_buffer", kSaved + 1);
  }
  const auto found = suspects();
  ASSERT_EQ(first_cause(found), "ckpt.mixed_updates");
  EXPECT_EQ(found[0].evidence.size(), 2U);
}

/// A thread read it while the update wrote to it.
TEST_F(LoadedFile, ATensorThatIsOfNoUpdate) {
  for (const std::string& name : kWeights) hold(0, Channel::kOptimizer, name + ".momentum_buffer", kSaved + 1);
  const trace::Record torn = floats(Channel::kWeight, "fc.bias", {1, 2, 3, 4});
  load(torn);
  EXPECT_EQ(first_cause(suspects(1)), "") << "the file does not hold it";
  (*files_[0].tensors)["x.fc.bias"] = to_text(torn.digest);
  EXPECT_EQ(first_cause(suspects(1)), "ckpt.mixed_updates");
}

/// The file is whole, and something else was loaded.
TEST_F(LoadedFile, AMixtureThatTheFileDoesNotHold) {
  load(at(bench_.run("straight"), 0, kSaved + 1, Channel::kWeight, "fc.bias"));
  EXPECT_EQ(named(), "");
}

TEST_F(LoadedFile, AMixtureThatWasNotLoaded) {
  hold(0, Channel::kWeight, "fc.bias", kSaved + 1);
  load(at(bench_.run("straight"), 0, 8, Channel::kWeight, "fc.bias"));
  EXPECT_EQ(named(), "");
}

TEST_F(LoadedFile, AMixtureOfWhichNobodyTells) {
  hold(0, Channel::kWeight, "fc.bias", kSaved + 1);
  files_[0].tensors.reset();
  EXPECT_EQ(named(), "");
}

TEST_F(LoadedFile, AWeightThatItLacks) {
  files_[0].tensors->erase("x.fc.bias");
  EXPECT_EQ(named(), "") << "it was there all the same";
  load(floats(Channel::kWeight, "fc.bias", {1, 2, 3, 4}));
  const auto found = suspects();
  ASSERT_EQ(first_cause(found), "ckpt.keys_dropped");
  EXPECT_EQ(found[0].evidence,
            (std::vector<std::string>{"the checkpoint file0 holds 1 of the 2 weights, and not fc.bias"}));
  hold(1, Channel::kWeight, "fc.bias", kSaved);
  load(floats(Channel::kWeight, "fc.bias", {1, 2, 3, 4}));
  EXPECT_EQ(named(), "") << "another file has it";
}

TEST_F(LoadedFile, AWeightThatIsFilledFromAnother) {
  trace::Record other = at(bench_.run("straight"), 0, kSaved, Channel::kWeight, "fc.bias");
  for (trace::RunTrace* run : {&bench_.run("straight"), &bench_.run("half"), &bench_.run("resumed")}) {
    for (const std::int64_t rank : {0, 1}) {
      for (trace::Step& step : run->ranks[static_cast<std::size_t>(rank)].steps) {
        trace::Record head = floats(Channel::kWeight, "head.bias", {static_cast<float>(step.step), 2, 3, 4});
        step.records.push_back(head);
      }
    }
  }
  other.name = "head.bias";
  load(other);
  const auto found = suspects();
  ASSERT_EQ(first_cause(found), "ckpt.keys_dropped");
  ASSERT_EQ(found[0].evidence.size(), 2U);
  EXPECT_NE(found[0].evidence[1].find("head.bias holds what fc.bias held"), std::string::npos) << found[0].evidence[1];
}

}  // namespace
}  // namespace lockstep::test
