#include "harness/golden/store.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <thread>

#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"

#include "tests/support/tiny/bench.h"

// Accepting goldens: what is refused, what is written, and what survives a failure.

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using golden::Accepted;
using trace::Channel;

/// Gives up root's right to write everywhere, for the length of a scope.
class Unprivileged {
 public:
  Unprivileged() {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ADD_FAILURE() << "cannot give up privileges";
  }
  ~Unprivileged() {
    if (::getuid() == 0 && ::seteuid(0) != 0) ADD_FAILURE() << "cannot take privileges back";
  }
};

class GoldenStore : public testing::Test {
 protected:
  GoldenStore()
      : bench_({{"repeats", 2},
                {"train", {{"determinism", {{"cpu", "portable"}}}}},
                {"variants", {{"a", Json::object()}}},
                {"checks", {{{"that", "repeatable"}}}}}) {}

  fs::path directory() const {
    return golden::golden_directory(bench_.scratch.path() / "golden", "tiny", "portable", "a");
  }
  std::vector<trace::RunTrace>& repeats() { return bench_.runs.at("a"); }
  Accepted accept() {
    return golden::accept(directory(), repeats(), {.reason = "because", .date = "2027-01-31", .train = {{"steps", 4}}});
  }

  /// Another training, all repeats alike.
  void change() {
    for (trace::RunTrace& run : repeats())
      put(run, 0, 1, floats(Channel::kWeight, "fc.bias", {1, 2, 3, static_cast<float>(++changes_)}));
    repeats()[1] = repeats()[0];
  }

  std::string refusal() {
    try {
      accept();
    } catch (const InputError& error) {
      return error.problem().what;
    }
    return "";
  }

  std::vector<std::string> beside() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory().parent_path()))
      names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

  Bench bench_;
  int changes_ = 0;
};

TEST_F(GoldenStore, RefusesOneRepeat) {
  repeats().resize(1);
  EXPECT_EQ(refusal(), "a golden needs repeats");
  repeats().clear();
  EXPECT_EQ(refusal(), "a golden needs repeats");
  EXPECT_FALSE(fs::exists(directory()));
}

TEST_F(GoldenStore, RefusesRepeatsThatDiffer) {
  spoil(repeats()[1], 1, 3, Channel::kWeight, "fc.weight");
  EXPECT_EQ(refusal(), "the repeats differ");
  EXPECT_FALSE(fs::exists(directory()));
}

TEST_F(GoldenStore, RefusesRepeatsOfOtherWorldSizes) {
  repeats()[1].ranks.pop_back();
  EXPECT_EQ(refusal(), "the repeats differ");
}

TEST_F(GoldenStore, RefusesIncompleteTraces) {
  repeats()[1].ranks[1].complete = false;
  EXPECT_EQ(refusal(), "a trace is not complete");
}

TEST_F(GoldenStore, RefusesNumbersThatAreNotFinite) {
  for (const char* channel : {"loss", "weight"}) {
    for (trace::RunTrace& run : repeats()) {
      if (std::string(channel) == "loss") put(run, 0, 2, scalar(Channel::kLoss, "local", std::nanf("")));
      put(run, 0, 2, floats(Channel::kWeight, "fc.bias", {std::nanf(""), 0, 0, 0}));
    }
    try {
      accept();
      ADD_FAILURE() << "accepted";
    } catch (const InputError& error) {
      const Problem& problem = error.problem();
      EXPECT_NE(problem.what.find("NaN and infinity hide every difference"), std::string::npos) << problem.what;
      EXPECT_NE(problem.expected.find("finite"), std::string::npos) << problem.expected;
      EXPECT_NE(problem.actual.find("step 2, "), std::string::npos) << problem.actual;
      EXPECT_NE(problem.next.find("lower the learning rate"), std::string::npos) << problem.next;
    }
  }
  EXPECT_FALSE(fs::exists(directory()));
}

TEST_F(GoldenStore, RefusesABufferThatBeginsAsNan) {
  for (trace::RunTrace& run : repeats()) {
    for (trace::Step& step : run.ranks[0].steps)
      step.records.push_back(floats(Channel::kBuffer, "bn.running_mean", {std::nanf(""), 1}));
  }
  EXPECT_NE(refusal().find("NaN and infinity hide every difference"), std::string::npos);
  EXPECT_FALSE(fs::exists(directory()));
}

TEST_F(GoldenStore, RefusesTracesWithoutRecords) {
  for (trace::RunTrace& run : repeats()) {
    for (trace::Trace& rank : run.ranks) rank.steps.clear();
  }
  EXPECT_EQ(refusal(), "a trace without records proves nothing");
  EXPECT_FALSE(fs::exists(directory()));
}

TEST_F(GoldenStore, WritesTheWholeTraceWithoutSketches) {
  EXPECT_EQ(accept(), Accepted::kNew);
  const auto read = golden::read_golden(directory());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->ranks.size(), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(read->ranks[rank].complete);
    EXPECT_TRUE(read->ranks[rank].damage.empty());
    std::vector<trace::Step> expected = repeats()[0].ranks[rank].steps;
    for (trace::Step& step : expected) {
      for (trace::Record& record : step.records) {
        record.sketch.reset();
        record.elements.clear();
        record.rows.clear();
      }
    }
    EXPECT_EQ(read->ranks[rank].steps, expected);
    const std::string text = read_file(directory() / ("rank" + std::to_string(rank) + ".jsonl"));
    for (const char* key : {"\"sketch\"", "\"elements\""}) EXPECT_EQ(text.find(key), std::string::npos) << key;
  }
}

TEST_F(GoldenStore, SaysWhyAndWhatInItsFirstLine) {
  accept();
  const auto read = golden::read_golden(directory());
  EXPECT_EQ(read->ranks[0].header["golden"],
            (Json{{"reason", "because"}, {"date", "2027-01-31"}, {"train", {{"steps", 4}}}}));
}

TEST_F(GoldenStore, LeavesAnUnchangedGoldenUntouched) {
  accept();
  const std::string before = read_file(directory() / "rank0.jsonl");
  EXPECT_EQ(golden::accept(directory(), repeats(), {.reason = "another reason", .date = "2028-01-01", .train = {}}),
            Accepted::kUnchanged);
  EXPECT_EQ(read_file(directory() / "rank0.jsonl"), before);
}

TEST_F(GoldenStore, ReplacesWhatChanged) {
  accept();
  change();
  EXPECT_EQ(accept(), Accepted::kChanged);
  auto read = golden::read_golden(directory());
  EXPECT_EQ(at(*read, 0, 1, Channel::kWeight, "fc.bias").digest,
            at(repeats()[0], 0, 1, Channel::kWeight, "fc.bias").digest);
  for (trace::RunTrace& run : repeats()) run.ranks[0].header["train_digest"] = "other";
  EXPECT_EQ(accept(), Accepted::kChanged) << "equal traces of another training";
  EXPECT_EQ(beside(), std::vector<std::string>{"a"}) << "nothing is left beside it";
}

TEST_F(GoldenStore, ReplacesWhatCannotBeReadAnyMore) {
  for (const char* file : {"rank0.jsonl", "rank1.jsonl"}) {
    accept();
    replace_file(directory() / file, "no trace\n");
    EXPECT_EQ(accept(), Accepted::kChanged) << file;
    fs::remove(directory() / file);
    EXPECT_EQ(accept(), Accepted::kChanged) << file << " is gone";
    replace_file(directory() / file, "");
    EXPECT_EQ(accept(), Accepted::kChanged) << file << " is empty";
    EXPECT_EQ(accept(), Accepted::kUnchanged);
  }
}

TEST_F(GoldenStore, DropsRanksThatAreNoMore) {
  accept();
  for (trace::RunTrace& run : repeats()) {
    run.ranks.pop_back();
    run.ranks[0].world_size = 1;
    run.ranks[0].header["world_size"] = 1;
  }
  EXPECT_EQ(accept(), Accepted::kChanged);
  EXPECT_FALSE(fs::exists(directory() / "rank1.jsonl"));
}

TEST_F(GoldenStore, IsThereAtEveryMomentOfAReplacement) {
  accept();
  std::atomic<bool> done = false;
  std::atomic<int> gone = 0, looks = 0;
  std::thread reader([&] {
    while (!done) {
      ++looks;
      if (!fs::exists(directory() / "rank0.jsonl") || !fs::exists(directory() / "rank1.jsonl")) ++gone;
    }
  });
  for (int i = 0; i < 20; ++i) {
    change();
    EXPECT_EQ(accept(), Accepted::kChanged);
  }
  done = true;
  reader.join();
  EXPECT_GT(looks, 0);
  EXPECT_EQ(gone, 0) << "of " << looks << " looks";
}

TEST_F(GoldenStore, KeepsTheOldGoldenWhenThePlaceIsReadOnly) {
  accept();
  const std::string before = read_file(directory() / "rank0.jsonl");
  fs::permissions(bench_.scratch.path(), static_cast<fs::perms>(0755));
  fs::permissions(directory().parent_path(), static_cast<fs::perms>(0555));
  change();
  {
    const Unprivileged unprivileged;
    EXPECT_THROW(accept(), ResourceError);
  }
  fs::permissions(directory().parent_path(), static_cast<fs::perms>(0755));
  EXPECT_EQ(read_file(directory() / "rank0.jsonl"), before);
  EXPECT_EQ(beside(), std::vector<std::string>{"a"});
}

TEST_F(GoldenStore, LeavesVariantsAloneWhoseNamesLookLikeItsOwn) {
  accept();
  for (const char* name : {"a.new", "a.old"}) {
    fs::create_directories(directory().parent_path() / name);
    replace_file(directory().parent_path() / name / "rank0.jsonl", "precious");
  }
  change();
  EXPECT_EQ(accept(), Accepted::kChanged);
  EXPECT_EQ(beside(), (std::vector<std::string>{"a", "a.new", "a.old"}));
}

TEST_F(GoldenStore, SaysWhenItsPlaceIsAFile) {
  bench_.scratch.write("golden", "a file");
  EXPECT_THROW(accept(), ResourceError);
}

TEST_F(GoldenStore, HasNoneWhereNothingIs) {
  EXPECT_FALSE(golden::read_golden(directory()));
  fs::create_directories(directory());
  EXPECT_FALSE(golden::read_golden(directory())) << "an empty folder is none";
  EXPECT_EQ(accept(), Accepted::kChanged);
}

}  // namespace
}  // namespace lockstep::test
