#include "harness/golden/store.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <thread>

#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/golden/cells.h"
#include "harness/golden/proposal.h"

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

  fs::path file() const { return golden::golden_file(bench_.scratch.path() / "golden", "tiny", "a"); }
  std::vector<trace::RunTrace>& repeats() { return bench_.runs.at("a"); }
  golden::Acceptable acceptable(const std::string& key = "portable") {
    const std::vector<Channel> all = trace::all_channels();
    return {.name = {"tiny", "a"},
            .key = key,
            .recipe = {{"steps", 4}},
            .channels = {all.begin(), all.end()},
            .repeats = repeats(),
            .acceptance = {.date = "2027-01-31", .reason = "because"}};
  }
  Accepted accept(const std::string& key = "portable") { return golden::accept(file(), acceptable(key)).what; }
  golden::Golden read() { return golden::read_golden(file()).value(); }

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
    for (const auto& entry : fs::directory_iterator(file().parent_path())) names.push_back(entry.path().filename());
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
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(GoldenStore, RefusesRepeatsThatDiffer) {
  spoil(repeats()[1], 1, 3, Channel::kWeight, "fc.weight");
  EXPECT_EQ(refusal(), "the repeats differ");
  EXPECT_FALSE(fs::exists(file()));
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
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(GoldenStore, RefusesABufferThatBeginsAsNan) {
  for (trace::RunTrace& run : repeats()) {
    for (trace::Step& step : run.ranks[0].steps)
      step.records.push_back(floats(Channel::kBuffer, "bn.running_mean", {std::nanf(""), 1}));
  }
  EXPECT_NE(refusal().find("NaN and infinity hide every difference"), std::string::npos);
  EXPECT_FALSE(fs::exists(file()));
}

TEST_F(GoldenStore, RefusesTracesWithoutRecords) {
  for (trace::RunTrace& run : repeats()) {
    for (trace::Trace& rank : run.ranks) rank.steps.clear();
  }
  EXPECT_EQ(refusal(), "a trace without records proves nothing");
  EXPECT_FALSE(fs::exists(file()));
}

std::vector<trace::Step> kept(std::vector<trace::Step> steps) {
  for (trace::Step& step : steps) {
    for (trace::Record& record : step.records) record = golden::as_kept(record);
  }
  return steps;
}

TEST_F(GoldenStore, WritesTheWholeTraceWithoutSketches) {
  EXPECT_EQ(accept(), Accepted::kNew);
  const trace::RunTrace run = read().entries.at(0).run;
  ASSERT_EQ(run.ranks.size(), 2U);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(run.ranks[rank].complete);
    EXPECT_EQ(run.ranks[rank].steps, kept(repeats()[0].ranks[rank].steps));
  }
}

TEST_F(GoldenStore, SaysWhyAndWhatItReplaced) {
  accept();
  const golden::Entry first = read().entries.at(0);
  ASSERT_EQ(first.history.size(), 1U);
  EXPECT_EQ(first.history[0].reason, "because");
  EXPECT_EQ(first.history[0].replaces, "nothing");
  EXPECT_EQ(first.history[0].repeats, 2);
  EXPECT_EQ(first.recipe, (Json{{"steps", 4}}));
  change();
  accept();
  const golden::Entry second = read().entries.at(0);
  ASSERT_EQ(second.history.size(), 2U) << "the newest first, and the old one is kept";
  EXPECT_EQ(second.history[0].replaces, first.digest.substr(0, 16));
  EXPECT_NE(second.history[0].moved.find("from step 1, weight fc.bias"), std::string::npos) << second.history[0].moved;
  EXPECT_EQ(second.history[1], first.history[0]);
}

TEST_F(GoldenStore, LeavesAnUnchangedGoldenUntouched) {
  accept();
  const std::string before = read_file(file());
  golden::Acceptable again = acceptable();
  again.acceptance.reason = "another reason";
  EXPECT_EQ(golden::accept(file(), again).what, Accepted::kUnchanged);
  for (trace::RunTrace& repeat : again.repeats) {
    for (trace::Trace& rank : repeat.ranks) rank.header["environment"] = {{"threads", 9}};
  }
  EXPECT_EQ(golden::accept(file(), again).what, Accepted::kUnchanged) << "equal bits, made elsewhere";
  EXPECT_EQ(read_file(file()), before);
}

TEST_F(GoldenStore, SaysHowFarNumbersHaveMovedAtMost) {
  trace::RunTrace after = repeats()[0];
  const auto move = [&](std::int64_t step, double by) {
    *at(after, 0, step, Channel::kLoss, "local").number *= 1 + by;
  };
  move(1, 0.5);
  move(2, 0.25);
  const std::string shift = golden::shift_of(repeats()[0], after);
  EXPECT_EQ(shift, "losses by up to 0.5 of theirs, norms by up to 0");
}

TEST_F(GoldenStore, ReplacesWhatChanged) {
  accept();
  change();
  EXPECT_EQ(accept(), Accepted::kChanged);
  auto run = read().entries.at(0).run;
  EXPECT_EQ(at(run, 0, 1, Channel::kWeight, "fc.bias").digest,
            at(repeats()[0], 0, 1, Channel::kWeight, "fc.bias").digest);
  for (trace::RunTrace& repeat : repeats()) repeat.ranks[0].header["train_digest"] = "other";
  EXPECT_EQ(accept(), Accepted::kChanged) << "equal traces of another training";
  EXPECT_EQ(beside(), std::vector<std::string>{"a.golden"}) << "nothing is left beside it";
}

TEST_F(GoldenStore, RefusesAProposalWithObstacles) {
  golden::Proposal proposal{.origin = bench_.scratch.path() / "proposal.json",
                            .name = {"tiny", "a"},
                            .scenario_file = "tiny.json",
                            .golden_root = {},
                            .verdict = "divergence",
                            .cause = {},
                            .moved = {},
                            .obstacles = {"a fault was planted"},
                            .entry = golden::entry_of(acceptable())};
  const golden::Acceptance acceptance{.date = "2027-01-31", .by = "me", .reason = "because"};
  const fs::path root = bench_.scratch.path() / "golden";
  EXPECT_THROW(golden::accept(proposal, acceptance, root), InputError);
  EXPECT_FALSE(fs::exists(file()));
  proposal.obstacles.clear();
  golden::accept(proposal, acceptance, root);
  EXPECT_EQ(read().entries.at(0).history.at(0).by, "me");
}

TEST_F(GoldenStore, HoldsOnlyChannelsThatAreCompared) {
  golden::Acceptable narrow = acceptable();
  narrow.channels = {Channel::kLoss};
  golden::accept(file(), narrow);
  const golden::Golden golden = read();
  for (const trace::Step& step : golden.entries.at(0).run.ranks[0].steps) {
    for (const trace::Record& record : step.records) EXPECT_EQ(record.channel, Channel::kLoss);
  }
}

/// They explain one run, and no check compares them.
TEST_F(GoldenStore, HoldsNoNotesOfARecorder) {
  for (trace::RunTrace& run : repeats()) {
    for (trace::Step& step : run.ranks[0].steps) {
      step.records.push_back(scalar(Channel::kLedger, "seen.clips", 1));
      step.records.push_back(floats(Channel::kGradient, "reduced fc.bias", {1, 2, 3, 4}));
    }
  }
  accept();
  const std::string text = read_file(file());
  for (const char* note : {"seen.clips", "reduced fc.bias"}) EXPECT_EQ(text.find(note), std::string::npos) << note;
}

TEST_F(GoldenStore, ReplacesWhatCannotBeReadAnyMore) {
  accept();
  const std::string whole = read_file(file());
  for (const std::string& damaged :
       {std::string("no golden\n"), std::string(), whole.substr(0, whole.size() / 2), whole.substr(0, 100)}) {
    replace_file(file(), damaged);
    EXPECT_EQ(accept(), Accepted::kChanged) << damaged.size();
    EXPECT_EQ(accept(), Accepted::kUnchanged);
  }
}

TEST_F(GoldenStore, KeepsEntriesOfOtherProcessors) {
  accept("native-avx2");
  accept("portable");
  accept("native-avx512");
  std::vector<std::string> keys;
  for (const golden::Entry& entry : read().entries) keys.push_back(entry.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"native-avx2", "native-avx512", "portable"}));
  std::string text = read_file(file());
  text[text.rfind("curve 2") + 6] = '3';  // in the entry 'portable'
  replace_file(file(), text);
  EXPECT_THROW(accept("native-avx2"), DamagedFile) << "it would be lost";
  EXPECT_EQ(read_file(file()), text);
  EXPECT_EQ(accept("portable"), Accepted::kChanged);
  EXPECT_EQ(read().entries.size(), 3U);
}

TEST_F(GoldenStore, KeepsTheHistoryOfBothSidesOfAMerge) {
  accept();
  const std::string base = read_file(file());
  const auto side = [&](const char* reason) {
    replace_file(file(), base);
    change();
    golden::Acceptable one = acceptable();
    one.acceptance.reason = reason;
    one.acceptance.date = "2027-02-01";
    golden::accept(file(), one);
    const std::string text = read_file(file());
    return text;
  };
  const std::string ours = side("ours"), theirs = side("theirs");
  const std::size_t differs = ours.find("\naccepted") + 1;
  replace_file(file(), ours.substr(0, differs) + "<<<<<<< HEAD\n" + ours.substr(differs) + "=======\n" +
                           theirs.substr(differs) + ">>>>>>> theirs\n");
  EXPECT_THROW(golden::read_golden(file()), golden::StaleGolden);
  change();
  EXPECT_EQ(accept(), Accepted::kChanged);
  std::vector<std::string> reasons;
  const golden::Golden golden = read();
  for (const golden::Acceptance& one : golden.entries.at(0).history) reasons.push_back(one.reason);
  EXPECT_EQ(reasons, (std::vector<std::string>{"because", "ours", "theirs", "because"}));
}

TEST_F(GoldenStore, DropsRanksThatAreNoMore) {
  accept();
  for (trace::RunTrace& run : repeats()) {
    run.ranks.pop_back();
    run.ranks[0].world_size = 1;
    run.ranks[0].header["world_size"] = 1;
  }
  EXPECT_EQ(accept(), Accepted::kChanged);
  EXPECT_EQ(read().entries.at(0).run.ranks.size(), 1U);
}

/// 16 writers, each with a key of its own, each waits for the lock of the folder.
TEST_F(GoldenStore, LosesNothingOfSixteenWriters) {
  constexpr int kWriters = 16, kRounds = 10;
  const std::string place = file().string();
  std::vector<golden::Acceptable> all;
  for (int writer = 0; writer < kWriters; ++writer) {
    all.push_back(acceptable("native-" + std::to_string(writer)));
    all.back().channels = {Channel::kLoss};
  }
  std::vector<std::thread> writers;
  std::atomic<int> failures = 0;
  for (int writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      for (int round = 0; round < kRounds; ++round) {
        golden::Acceptable one = all[static_cast<std::size_t>(writer)];
        one.recipe = {{"round", round}};
        for (trace::RunTrace& repeat : one.repeats) repeat.ranks[0].header["train_digest"] = std::to_string(round);
        try {
          golden::accept(place, one);
        } catch (const Error&) {
          ++failures;
        }
      }
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  ASSERT_EQ(read().entries.size(), static_cast<std::size_t>(kWriters));
  for (const golden::Entry& entry : read().entries) EXPECT_EQ(entry.history.size(), static_cast<std::size_t>(kRounds));
}

TEST_F(GoldenStore, IsWholeAtEveryMomentOfAReplacement) {
  accept();
  std::atomic<bool> done = false;
  std::atomic<int> gone = 0, looks = 0;
  std::thread reader([&] {
    while (!done) {
      ++looks;
      try {
        if (!golden::read_golden(file())) ++gone;
      } catch (const Error&) {
        ++gone;
      }
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
  const std::string before = read_file(file());
  fs::permissions(bench_.scratch.path(), static_cast<fs::perms>(0755));
  fs::permissions(file().parent_path(), static_cast<fs::perms>(0555));
  change();
  {
    const Unprivileged unprivileged;
    EXPECT_THROW(accept(), ResourceError);
  }
  fs::permissions(file().parent_path(), static_cast<fs::perms>(0755));
  EXPECT_EQ(read_file(file()), before);
  EXPECT_EQ(beside(), std::vector<std::string>{"a.golden"});
}

TEST_F(GoldenStore, SaysWhenItsPlaceIsAFile) {
  bench_.scratch.write("golden", "a file");
  EXPECT_THROW(accept(), ResourceError);
}

TEST_F(GoldenStore, HasNoneWhereNothingIs) {
  EXPECT_FALSE(golden::read_golden(file()));
  EXPECT_EQ(accept(), Accepted::kNew);
}

/// A golden of the format before: a folder for each class of processors, with a trace of each rank.
TEST_F(GoldenStore, MigratesTheFormatBefore) {
  const fs::path root = bench_.scratch.path() / "golden", folder = root / "tiny" / "native-avx2" / "a";
  trace::RunTrace old = repeats()[0];
  for (trace::Trace& rank : old.ranks)
    rank.header["golden"] = {{"reason", "old"}, {"date", "2026-01-31"}, {"train", {{"steps", 4}}}};
  write_run(folder, old);
  EXPECT_TRUE(golden::has_old_format(root, "tiny", "a"));
  EXPECT_EQ(golden::migrate(root), std::vector<fs::path>{file()});
  EXPECT_FALSE(fs::exists(folder.parent_path()));
  const golden::Golden golden = read();
  ASSERT_EQ(golden.entries.size(), 1U);
  EXPECT_EQ(golden.entries[0].key, "native-avx2");
  EXPECT_EQ(golden.entries[0].history.at(0).reason, "old");
  EXPECT_EQ(golden.entries[0].run.ranks[1].steps, kept(old.ranks[1].steps));
  EXPECT_EQ(accept("native-avx2"), Accepted::kUnchanged);
  EXPECT_TRUE(golden::migrate(root).empty());
}

TEST_F(GoldenStore, MigratesNothingOfATornGolden) {
  const fs::path root = bench_.scratch.path() / "golden", folder = root / "tiny" / "portable" / "a";
  write_run(folder, repeats()[0]);
  fs::resize_file(folder / "rank1.jsonl", fs::file_size(folder / "rank1.jsonl") - 1);
  EXPECT_THROW(golden::migrate(root), DamagedFile);
  EXPECT_TRUE(fs::exists(folder / "rank0.jsonl"));
  EXPECT_FALSE(fs::exists(file()));
}

}  // namespace
}  // namespace lockstep::test
