// `lockstep golden accept` on a file layer that fails at each of its operations, and many of them at once.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "harness/base/files.h"
#include "harness/golden/proposal.h"
#include "harness/golden/store.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using trace::Channel;

constexpr const char* kKey = "portable";
constexpr const char* kOtherKey = "native-avx2";

/// Goldens of tiny trainings, and proposals that the command accepts.
class AcceptingCommand : public testing::Test {
 protected:
  AcceptingCommand()
      : bench_({{"repeats", 2}, {"variants", {{"a", Json::object()}}}, {"checks", {{{"that", "repeatable"}}}}}) {}

  fs::path root() const { return bench_.scratch.path() / "place" / "golden"; }
  fs::path file() const { return golden::golden_file(root(), "tiny", "a"); }

  /// A training with a weight of its own.
  golden::Entry entry(const std::string& key, float weight) {
    for (trace::RunTrace& run : bench_.runs.at("a"))
      put(run, 0, 1, floats(Channel::kWeight, "fc.bias", {1, 2, 3, weight}));
    return golden::entry_of({.name = kName,
                             .key = key,
                             .recipe = {{"weight", weight}},
                             .channels = {Channel::kLoss, Channel::kWeight},
                             .repeats = bench_.runs.at("a"),
                             .acceptance = {.date = "2027-01-31", .reason = "x"}});
  }

  static golden::Proposal proposal_of(const golden::Entry& entry) {
    return {.origin = {},
            .name = kName,
            .scenario_file = "tiny.json",
            .golden_root = "golden",
            .verdict = "divergence",
            .cause = {},
            .moved = {},
            .obstacles = {},
            .entry = entry};
  }

  /// `lockstep golden accept` of the proposals in a folder, with variables of the environment.
  Outcome accept_command(const fs::path& from, const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> words = {"env", "-u", "CI", "PATH="};  // without git
    words.insert(words.end(), environment.begin(), environment.end());
    for (const std::string& word :
         {lockstep_program().string(), std::string("golden"), std::string("accept"), std::string("tiny/a"),
          std::string("--from"), from.string(), std::string("--reason"), std::string("x"), std::string("--golden"),
          root().string()})
      words.push_back(word);
    return run_program(words, 60, bench_.scratch.path());
  }

  static inline const golden::Name kName = {"tiny", "a"};
  Bench bench_;
};

/// A kind of failure (tests/support/failing_files), and whether the golden is the first one.
class FailingFiles : public AcceptingCommand, public testing::WithParamInterface<std::tuple<const char*, bool>> {
 protected:
  std::string kind() const { return std::get<0>(GetParam()); }
  bool is_first() const { return std::get<1>(GetParam()); }
  fs::path place() const { return root().parent_path(); }
  fs::path proposals() const { return place() / "found"; }
  fs::path prepared() const { return bench_.scratch.path() / "prepared"; }  ///< proposals, written once
  fs::path report() const { return bench_.scratch.path() / "report"; }

  void begin_anew() {
    fs::create_directories(place());
    fs::copy(prepared(), proposals(), fs::copy_options::recursive);
    if (!before_.empty()) bench_.scratch.write(fs::relative(file(), bench_.scratch.path()), before_);
  }

  /// The golden without its dates; "" if there is none. *Throws*: as read_golden, for a damaged one.
  std::string found() const {
    std::optional<golden::Golden> golden = golden::read_golden(file());
    if (!golden) return "";
    for (golden::Entry& entry : golden->entries) {
      for (golden::Acceptance& one : entry.history) one.date = "";
    }
    return golden::to_text(*golden);
  }

  /// Variables that put the layer between a program and its files.
  std::vector<std::string> failing_at(int operation) const {
    return {std::string("LD_PRELOAD=") + FAILING_FILES,
            "ASAN_OPTIONS=verify_asan_link_order=0",
            "FAILING_FILES_KIND=" + kind(),
            "FAILING_FILES_AT=" + std::to_string(operation),
            "FAILING_FILES_BELOW=" + place().string(),
            "FAILING_FILES_REPORT=" + report().string()};
  }

  /// Runs a program with a failure at each of its operations. `look` gets its exit code.
  void fail_at_each_operation(const std::function<void()>& begin,
                              const std::function<Outcome(const std::vector<std::string>&)>& run,
                              const std::function<void(int)>& look) const {
    constexpr int kMost = 1000;
    for (int operation = 1; operation < kMost; ++operation) {
      fs::remove_all(place());
      fs::remove(report());
      begin();
      const Outcome outcome = run(failing_at(operation));
      const bool is_reached = fs::exists(report());
      SCOPED_TRACE(kind() + " " + std::to_string(operation) + ": " + (is_reached ? read_file(report()) : "at the end") +
                   "; " + outcome.out + outcome.err);
      EXPECT_TRUE(outcome.exit_code < 128 || outcome.exit_code == 128 + SIGKILL) << outcome.exit_code;
      look(outcome.exit_code);
      if (HasFailure()) return;
      if (!is_reached) {
        EXPECT_EQ(outcome.exit_code, 0);
        EXPECT_GT(operation, 5) << "the layer is not between the program and its files";
        return;
      }
    }
    FAIL() << "no end after " << kMost << " operations";
  }

  /// The golden before, and the one after an acceptance without a failure.
  void learn_both_texts() {
    golden::write_proposal(prepared(), proposal_of(fresh_));
    begin_anew();
    if (!is_first()) {
      for (const char* key : {kKey, kOtherKey}) golden::accept(file(), kName, entry(key, 4));
      before_ = read_file(file());
    }
    old_ = found();
    ASSERT_EQ(accept_command(proposals()).exit_code, 0);
    new_ = found();
    ASSERT_NE(old_, new_);
  }

  /// The same command without a failure, later.
  void accept_again() {
    for (const golden::Proposal& proposal : golden::proposals_in(proposals()))
      golden::accept(proposal, {.date = "2027-02-01", .reason = "x"}, root());
    EXPECT_EQ(found(), new_);
    std::vector<std::string> names;
    for (const fs::path& beside : entries_of(file().parent_path())) names.push_back(beside.filename());
    EXPECT_EQ(names, std::vector<std::string>{"a.golden"}) << "left beside the golden";
  }

  const golden::Entry fresh_ = entry(kKey, 5);
  std::string before_;     ///< text of the golden before
  std::string old_, new_;  ///< as found() gives them
};

TEST_P(FailingFiles, LeaveTheOldGoldenOrTheNew) {
  learn_both_texts();
  fail_at_each_operation([&] { begin_anew(); },
                         [&](const std::vector<std::string>& failing) { return accept_command(proposals(), failing); },
                         [&](int exit_code) {
                           std::string text;
                           ASSERT_NO_THROW(text = found()) << "damaged: " << read_file(file());
                           EXPECT_TRUE(text == old_ || text == new_) << text;
                           if (exit_code == 0) {
                             EXPECT_EQ(text, new_) << "a false success";
                           }
                           accept_again();
                         });
}

/// Recipes of the proposals in a folder.
std::vector<Json> recipes_proposed(const fs::path& folder) {
  std::vector<Json> recipes;
  for (const golden::Proposal& proposal : golden::proposals_in(folder)) recipes.push_back(proposal.entry.recipe);
  return recipes;
}

/// A program that the next test runs.
TEST_F(AcceptingCommand, DISABLED_Proposes) {
  const char* const folder = std::getenv("PROPOSALS");
  ASSERT_NE(folder, nullptr);
  golden::write_proposal(folder, proposal_of(entry(kKey, 5)));
}

class FailingFilesOfProposals : public FailingFiles {};

TEST_P(FailingFilesOfProposals, LeaveTheOldProposalOrTheNew) {
  const golden::Proposal before = proposal_of(entry(kKey, 4)), after = proposal_of(fresh_);
  const std::vector<Json> old_recipes = is_first() ? std::vector<Json>{} : std::vector{before.entry.recipe};
  const auto run = [&](const std::vector<std::string>& failing) {
    std::vector<std::string> words = {"env", "-u", "GTEST_TOTAL_SHARDS", "PROPOSALS=" + proposals().string()};
    words.insert(words.end(), failing.begin(), failing.end());
    words.insert(words.end(), {fs::read_symlink("/proc/self/exe"), "--gtest_also_run_disabled_tests",
                               "--gtest_filter=AcceptingCommand.DISABLED_Proposes"});
    return run_program(words, 60);
  };
  const auto begin = [&] {
    fs::create_directories(place());
    if (!is_first()) golden::write_proposal(proposals(), before);
  };
  fail_at_each_operation(begin, run, [&](int exit_code) {
    std::vector<Json> recipes;
    ASSERT_NO_THROW(recipes = recipes_proposed(proposals()));
    const bool is_new = recipes == std::vector{after.entry.recipe};
    EXPECT_TRUE(is_new || recipes == old_recipes);
    EXPECT_TRUE(is_new || exit_code != 0) << "a false success";
    golden::write_proposal(proposals(), after);
    EXPECT_EQ(recipes_proposed(proposals()), std::vector{after.entry.recipe});
    EXPECT_EQ(read_file(proposals() / ".gitignore"), "*\n");
  });
}

std::string name_of_failure(const testing::TestParamInfo<std::tuple<const char*, bool>>& about) {
  return std::string(std::get<0>(about.param)) + (std::get<1>(about.param) ? "_first" : "_replaced");
}

INSTANTIATE_TEST_SUITE_P(OfEveryKind, FailingFiles,
                         testing::Combine(testing::Values("once", "for_good", "drop", "garble", "undo", "late"),
                                          testing::Bool()),
                         name_of_failure);
// A proposal may be lost with its folder: it can be made again.
INSTANTIATE_TEST_SUITE_P(OfSomeKinds, FailingFilesOfProposals,
                         testing::Values(std::tuple("for_good", false), std::tuple("drop", true)), name_of_failure);

/// Many processes accept at once, each a key of its own in the same golden.
class ManyWriters : public AcceptingCommand {
 protected:
  static std::string key_of_writer(int writer) { return "native-" + std::to_string(writer); }

  void write_rounds(int writers, int rounds) {
    std::vector<std::vector<golden::Proposal>> all(static_cast<std::size_t>(writers));
    for (int writer = 0; writer < writers; ++writer) {
      for (int round = 0; round < rounds; ++round)
        all[static_cast<std::size_t>(writer)].push_back(
            proposal_of(entry(key_of_writer(writer), static_cast<float>(1000 * writer + round))));
    }
    std::vector<std::thread> threads;
    for (int writer = 0; writer < writers; ++writer) {
      threads.emplace_back([&, writer] {
        const fs::path from = bench_.scratch.path() / key_of_writer(writer);
        for (const golden::Proposal& proposal : all[static_cast<std::size_t>(writer)]) {
          golden::write_proposal(from, proposal);
          const Outcome outcome = accept_command(from);
          EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const golden::Golden golden = golden::read_golden(file()).value();
    EXPECT_EQ(golden.entries.size(), static_cast<std::size_t>(writers));
    for (int writer = 0; writer < writers; ++writer) {
      const golden::Entry* const found = golden.find(key_of_writer(writer));
      ASSERT_NE(found, nullptr) << writer;
      EXPECT_EQ(found->history.size(), static_cast<std::size_t>(rounds)) << writer;
      const golden::Entry& last = all[static_cast<std::size_t>(writer)].back().entry;
      EXPECT_EQ(found->run.ranks[0].steps, last.run.ranks[0].steps) << writer;
      EXPECT_EQ(found->recipe, last.recipe) << writer;
    }
  }
};

TEST_F(ManyWriters, LoseNothing) { write_rounds(16, 5); }

/// Takes minutes: by hand.
TEST_F(ManyWriters, DISABLED_LoseNothingInManyRounds) { write_rounds(16, 200); }

}  // namespace
}  // namespace lockstep::test
