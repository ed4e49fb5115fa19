// A golden's life: a run proposes it, a person reviews and accepts it, and it shows when it is out of date.
#include <filesystem>
#include <string>
#include <vector>

#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/golden/processors.h"
#include "harness/golden/proposal.h"
#include "harness/golden/store.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// A text of a terminal to wait for, and what is typed then.
struct Answer {
  std::string after;
  std::string keys;
};

/// Runs lockstep on a terminal of its own. Returns all that it showed, and its exit code behind "exit ".
std::string on_terminal(const std::vector<std::string>& arguments, const fs::path& from,
                        const std::vector<Answer>& answers) {
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) {
    const std::string program = lockstep_program().string();
    std::vector<char*> words = {const_cast<char*>(program.c_str())};
    for (const std::string& one : arguments) words.push_back(const_cast<char*>(one.c_str()));
    words.push_back(nullptr);
    ::unsetenv("CI");
    if (::chdir(from.c_str()) == 0) ::execv(program.c_str(), words.data());
    ::_exit(127);
  }
  std::string shown;
  std::size_t seen = 0, next = 0;
  constexpr int kTimeout_ms = 60'000;
  for (;;) {
    pollfd waits{.fd = terminal, .events = POLLIN, .revents = 0};
    if (::poll(&waits, 1, kTimeout_ms) <= 0) break;
    char buffer[4096];
    const ssize_t count = ::read(terminal, buffer, sizeof buffer);
    if (count <= 0) break;
    shown.append(buffer, static_cast<std::size_t>(count));
    while (next < answers.size()) {
      const std::size_t found = shown.find(answers[next].after, seen);
      if (found == std::string::npos) break;
      seen = found + answers[next].after.size();
      EXPECT_EQ(::write(terminal, answers[next].keys.data(), answers[next].keys.size()),
                static_cast<ssize_t>(answers[next].keys.size()));
      ++next;
    }
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(next, answers.size()) << shown;
  return shown + "exit " + std::to_string(WEXITSTATUS(status));
}

constexpr const char* kAsks = "q quit";

class LifecycleEndToEnd : public EndToEnd {
 protected:
  LifecycleEndToEnd() { write_scenario(training()); }

  /// A training with a golden check of two variants.
  static Json training(double rate = 0.1) {
    return scenario({{"name", "gold"},
                     {"repeats", 2},
                     {"train", {{"optimizer", {{"lr", rate}}}, {"determinism", {{"cpu", "portable"}}}}},
                     {"variants", {{"main", Json::object()}, {"other", at("train.seed.base", 7)}}},
                     {"checks", Json::array({check("golden"), check("repeatable", {{"variants", {"main"}}})})}});
  }

  void write_scenario(const Json& scenario) { file_ = scratch_.write("scenarios/gold.json", scenario.dump()); }

  /// lockstep in the folder of the project, with no golden root named.
  Outcome lockstep(const std::vector<std::string>& arguments) { return run_lockstep(arguments, scratch_.path()); }

  Outcome lockstep(const std::vector<std::string>& arguments, int exit_code) {
    const Outcome outcome = lockstep(arguments);
    EXPECT_EQ(outcome.exit_code, exit_code) << outcome.out << outcome.err;
    return outcome;
  }

  /// The same in a job of CI.
  Outcome in_ci(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {"env", "CI=true", lockstep_program()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_program(words, 300, scratch_.path());
  }

  Outcome git(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org"});
    return run_program(arguments, 60, scratch_.path());
  }

  void commit() {
    git({"init", "-q"});
    git({"config", "user.name", "Ada"});
    git({"config", "user.email", "ada@example.org"});
    git({"add", "scenarios"});
    EXPECT_EQ(git({"commit", "-q", "-m", "a change"}).exit_code, 0);
  }

  fs::path pending(const std::string& variant, const std::string& folder = "golden/pending") const {
    return scratch_.path() / folder / "gold" / (variant + ".portable.json");
  }

  /// Accepted, then changed and proposed.
  void propose_a_change() {
    lockstep({"golden", "accept", "scenarios", "--reason", "first"}, 0);
    write_scenario(training(0.2));
    lockstep({"run", "scenarios"}, 1);
  }

  fs::path file_;
};

TEST_F(LifecycleEndToEnd, ARunProposesAndChangesNothing) {
  lockstep({"golden", "accept", "scenarios", "--reason", "first"}, 0);
  const std::string before = read_text(golden_file("gold"));
  EXPECT_EQ(lockstep({"run", "scenarios"}, 0).err.find("proposed"), std::string::npos);
  EXPECT_FALSE(fs::exists(pending("main")));

  write_scenario(training(0.2));
  EXPECT_EQ(in_ci({"run", "scenarios"}).exit_code, 1);
  EXPECT_FALSE(fs::exists(pending("main"))) << "a CI job writes nothing that nobody asked for";
  EXPECT_EQ(in_ci({"run", "scenarios", "--propose", "found"}).exit_code, 1);
  EXPECT_TRUE(fs::exists(pending("main", "found")));
  expect_says(lockstep({"run", "scenarios"}, 1).err, {"2 goldens are proposed", "lockstep golden review"});
  EXPECT_TRUE(fs::exists(pending("main")));
  EXPECT_EQ(read_text(golden_file("gold")), before);
  expect_says(
      lockstep({"golden", "status"}, 3).out,
      {"proposed     gold/main (portable)", "stale        gold/main (portable)", "train.optimizer.lr 0.1 -> 0.2"});

  write_scenario(training());
  lockstep({"run", "scenarios"}, 0);
  EXPECT_FALSE(fs::exists(pending("main"))) << "what agrees is proposed no longer";
  EXPECT_EQ(in_ci({"golden", "accept", "gold/*", "--reason", "x", "--from", "found"}).exit_code, 2);
}

TEST_F(LifecycleEndToEnd, IsReviewedOnATerminal) {
  propose_a_change();
  const std::string before = read_text(golden_file("gold", "other"));
  const std::string shown =
      on_terminal({"golden", "review"}, scratch_.path(),
                  {{kAsks, "x"}, {kAsks, "a"}, {"why does it change?", "a larger rate\n"}, {kAsks, "s"}});
  expect_says(shown, {"gold/main (portable)", "recipe.changed: train.optimizer.lr 0.1 -> 0.2", "moved", "golden",
                      "proposed", "1 accepted, 0 rejected, 1 skipped", "exit 0"});
  expect_says(read_text(golden_file("gold")), {"reason \"a larger rate\"", "recipe optimizer.lr 0.2"});
  EXPECT_EQ(read_text(golden_file("gold", "other")), before);
  EXPECT_FALSE(fs::exists(pending("main")));
  EXPECT_TRUE(fs::exists(pending("other")));
  expect_says(on_terminal({"golden", "review"}, scratch_.path(), {{kAsks, "q"}}),
              {"0 accepted, 0 rejected, 0 skipped"});
  expect_says(on_terminal({"golden", "review"}, scratch_.path(), {{kAsks, "R"}}),
              {"0 accepted, 1 rejected, 0 skipped"});
  EXPECT_FALSE(fs::exists(pending("other")));
  EXPECT_EQ(read_text(golden_file("gold", "other")), before);
  expect_says(lockstep({"golden", "log", "gold/main"}, 0).out,
              {"a larger rate", "moved from step 0, weight fc1.weight", "first"});
}

TEST_F(LifecycleEndToEnd, PrintsTheCommandsWithoutATerminal) {
  propose_a_change();
  const Outcome review = lockstep({"golden", "review"}, 0);
  expect_says(review.out,
              {"accept     lockstep golden accept gold/main --reason", "reject     lockstep golden reject gold/main"});
  expect_says(run_lockstep({"golden", "review"}, scratch_.path() / "scenarios").out, {"gold/main", "gold/other"});
  const std::string before = read_text(golden_file("gold"));
  expect_says(lockstep({"golden", "accept", "gold/main", "--reason", "x", "--dry-run"}, 0).out, {"would be changed"});
  expect_says(lockstep({"golden", "reject", "*", "--dry-run"}, 0).out, {"would reject  gold/main"});
  EXPECT_EQ(read_text(golden_file("gold")), before);
  expect_says(lockstep({"golden", "accept", "gold/mian", "--reason", "x"}, 2).err,
              {"neither a scenario nor a proposal has this name", "did you mean 'gold/main'?"});
  lockstep({"golden", "accept", "gold/main", "--reason", "x"}, 0);
  lockstep({"golden", "reject", "gold/other"}, 0);
  lockstep({"golden", "verify", "scenarios", "--repeats", "3"}, 1);
  lockstep({"golden", "accept", "scenarios", "--reason", "y"}, 0);
  expect_says(lockstep({"golden", "verify", "scenarios", "--repeats", "3"}, 0).out, {"6 of 6 runs"});
}

TEST_F(LifecycleEndToEnd, MergesProposalsOfSeveralPlatforms) {
  lockstep({"run", "scenarios", "--propose", "a"}, 3);
  // The other platform: the same scenario by another name of its processors.
  for (const char* variant : {"main", "other"}) {
    golden::Proposal proposal = golden::proposals_in(scratch_.path() / "a").at(variant == std::string("main") ? 0 : 1);
    proposal.entry.key = "native-avx2";
    golden::write_proposal(scratch_.path() / "b", proposal);
  }
  expect_says(lockstep({"golden", "accept", "*", "--from", "c", "--reason", "both"}, 2).err,
              {"there is no folder of proposals", "--from c"});
  const Outcome json =
      lockstep({"golden", "accept", "*", "--from", "a", "--from", "b", "--reason", "both", "--json", "-"}, 0);
  EXPECT_EQ(Json::parse(json.out).at("goldens").at(0).at("key"), "portable") << json.out;
  std::vector<std::string> keys;
  const golden::Golden golden = golden::read_golden(golden_file("gold")).value();
  for (const golden::Entry& entry : golden.entries) keys.push_back(entry.key);
  EXPECT_EQ(keys, (std::vector<std::string>{"native-avx2", "portable"}));
  EXPECT_EQ(golden::proposals_in(scratch_.path() / "a").size(), 2) << "the folder is somebody's artifact";
  lockstep({"run", "scenarios"}, 0);
}

TEST_F(LifecycleEndToEnd, AcceptsOnlyWhatIsProvenAndCommitted) {
  Json once = training();
  once["repeats"] = 1;
  once["checks"].erase(1);
  write_scenario(once);
  lockstep({"run", "scenarios"}, 3);
  expect_says(lockstep({"golden", "accept", "gold/main", "--reason", "x"}, 2).err, {"a golden needs repeats"});

  Json red = training();
  red["checks"].push_back(check("equal", {{"variants", {"main", "other"}}}));
  write_scenario(red);
  lockstep({"run", "scenarios"}, 1);
  expect_says(lockstep({"golden", "accept", "gold/main", "--reason", "x"}, 2).err, {"checks.2 equal is divergence"});

  write_scenario(training());
  commit();
  write_scenario(training(0.3));
  expect_says(lockstep({"golden", "accept", "scenarios", "--reason", "x"}, 2).err,
              {"a golden needs sources that are committed", "scenarios/gold.json"});
  lockstep({"run", "scenarios"}, 3);
  expect_says(lockstep({"golden", "accept", "gold/main", "--reason", "x"}, 2).err, {"were not committed"});
  EXPECT_FALSE(fs::exists(golden_file("gold")));
  lockstep({"golden", "accept", "gold/main", "--reason", "x", "--dirty"}, 0);
  expect_says(read_text(golden_file("gold")), {"Ada <ada@example.org>", " with changes"});
  commit();
  lockstep({"golden", "accept", "scenarios", "--reason", "x", "--variant", "other"}, 0);
  EXPECT_EQ(read_text(golden_file("gold", "other")).find("with changes"), std::string::npos);
}

TEST_F(LifecycleEndToEnd, TheSelftestTurnsEveryGoldenRed) {
  expect_says(lockstep({"gate", "scenarios", "--selftest"}, 2).err, {"a golden is missing"});
  lockstep({"golden", "accept", "scenarios", "--reason", "first"}, 0);
  expect_says(lockstep({"gate", "scenarios", "--selftest"}, 0).out, {"2 goldens", "each turns its golden red"});
  write_scenario(training(0.2));
  expect_says(lockstep({"gate", "scenarios", "--selftest"}, 2).err,
              {"does not agree with it", "lockstep golden status"});
}

TEST_F(LifecycleEndToEnd, BisectNamesTheCommitAndTheCause) {
  const auto commit_of = [&](const Json& scenario) {
    write_scenario(scenario);
    commit();
    std::string id = git({"rev-parse", "HEAD"}).out;
    return id.substr(0, id.find('\n'));
  };
  Json training = LifecycleEndToEnd::training();
  const std::string unborn = commit_of(training);
  lockstep({"golden", "accept", "scenarios", "--reason", "first"}, 0);
  git({"add", "golden"});
  training["description"] = "Another text.";
  const std::string good = commit_of(training);
  training["train"]["optimizer"]["lr"] = "no number";
  commit_of(training);
  training["train"]["optimizer"]["lr"] = 0.1;
  training["repeats"] = 3;
  commit_of(training);
  training["train"]["optimizer"]["lr"] = 0.3;
  const std::string culprit = commit_of(training);
  training["description"] = "And another one.";
  commit_of(training);
  write_scenario(LifecycleEndToEnd::training());  // what is not committed stays out of it, and as it is
  const Outcome found = lockstep({"bisect", "scenarios/gold.json", "--good", good}, 0);
  expect_says(found.out,
              {"commit  " + culprit, "author  Ada", "cause   recipe.changed: train.optimizer.lr 0.1 -> 0.3"});
  EXPECT_EQ(git({"worktree", "list"}).out.find('\n'), git({"worktree", "list"}).out.rfind('\n')) << "one is left";
  EXPECT_EQ(read_json(file_)["repeats"], 2);
  expect_says(lockstep({"bisect", "scenarios/gold.json", "--good", unborn}, 2).err, {"the good commit has no goldens"});
  expect_says(lockstep({"bisect", "scenarios/gold.json", "--good", culprit}, 2).err,
              {"does not hold at the good commit"});
  expect_says(lockstep({"bisect", "scenarios/gold.json", "--good", "nothing"}, 2).err, {"git refuses"});
}

TEST_F(LifecycleEndToEnd, StatusAndDoctorSeeEveryState) {
  expect_says(lockstep({"golden", "status"}, 3).out,
              {"missing      gold/main: there is no golden golden/gold/main.golden"});
  lockstep({"golden", "accept", "scenarios", "--reason", "first"}, 0);
  lockstep({"golden", "status"}, 0);
  lockstep({"doctor", "scenarios"}, 0);
  const fs::path file = golden_file("gold");
  const std::string whole = read_text(file);
  const auto expect_state = [&](int code, const std::vector<std::string>& parts) {
    expect_says(lockstep({"golden", "status"}, code).out, parts);
    EXPECT_EQ(lockstep({"doctor", "scenarios"}).exit_code, code);
    scratch_.write("golden/gold/main.golden", whole);
  };
  scratch_.write("golden/gold/main.golden", whole.substr(0, whole.size() / 2));
  expect_state(4, {"damaged      gold/main", "restore it from version control"});
  scratch_.write("golden/gold/main.golden", "<<<<<<< HEAD\n" + whole + "=======\n>>>>>>> other\n");
  expect_state(3, {"conflict     gold/main", "merge conflict"});
  golden::Golden golden = golden::read_golden(file).value();
  golden.entries[0].key = "riscv";
  scratch_.write("golden/gold/main.golden", golden::to_text(golden));
  expect_state(3, {"unknown key  gold/main (riscv)", "missing      gold/main"});
  golden.entries[0].key = "native-avx2";
  scratch_.write("golden/gold/main.golden", golden::to_text(golden));
  expect_state(3, {"no lane      gold/main (native-avx2)", "lockstep golden remove gold/main --key native-avx2"});

  scratch_.write("golden/gone/main.golden", whole);
  expect_says(lockstep({"golden", "status"}, 3).out, {"obsolete     gone/main", "git rm golden/gone/main.golden"});
  lockstep({"golden", "status", "scenarios"}, 0);  // of these scenarios alone, others may have their goldens there
  fs::remove_all(scratch_.path() / "golden/gone");

  write_scenario(training(0.2));
  expect_says(lockstep({"golden", "status", "--json", "states.json"}, 3).out, {"0 of 2 are current"});
  EXPECT_EQ(read_json(scratch_.path() / "states.json").at("goldens").at(0).at("state"), "stale");
  EXPECT_EQ(lockstep({"doctor", "scenarios"}).exit_code, 3);
}

TEST_F(LifecycleEndToEnd, AnEntryIsOfTheseProcessorsOrOfOthers) {
  Json native = training();
  native["train"].erase("determinism");
  native["checks"] = {check("golden", {{"variants", {"main"}}})};
  write_scenario(native);
  lockstep({"golden", "accept", "scenarios", "--reason", "first"}, 0);
  const golden::Golden own = golden::read_golden(golden_file("gold")).value();
  golden::Golden other = own;
  other.entries[0].key = "native-other";
  scratch_.write("golden/gold/main.golden", golden::to_text(other));
  expect_says(lockstep({"golden", "status"}, 3).out,
              {"missing", "no entry for this machine", own.entries[0].key, "1 of 2 are current"});
  EXPECT_EQ(lockstep({"run", "scenarios"}).exit_code, 3) << "as a run says";

  // One entry for the class and one for the model: each can be renewed here, and removed.
  scratch_.write("golden/gold/main.golden", golden::to_text(own));
  const std::string model = golden::keys_here("").front();
  expect_says(lockstep({"golden", "accept", "scenarios", "--reason", "x", "--exact"}, 0).out, {"(" + model + ")"});
  native["train"]["optimizer"]["lr"] = 0.2;
  write_scenario(native);
  lockstep({"golden", "accept", "scenarios", "--reason", "x"}, 0);
  expect_says(lockstep({"golden", "status"}, 3).out,
              {"stale        gold/main (" + own.entries[0].key + ")", "--reason '…' --class", "1 of 2"});
  lockstep({"golden", "accept", "scenarios", "--reason", "x", "--class"}, 0);
  lockstep({"golden", "status"}, 0);
  expect_says(lockstep({"golden", "remove", "gold/main", "--key", "native-none"}, 2).err, {"one of: ", model});
  expect_says(in_ci({"golden", "remove", "gold/main", "--key", model}).err, {"CI"});
  expect_says(lockstep({"golden", "remove", "gold/*", "--key", model}, 0).out, {"removed  golden/gold/main.golden"});
  lockstep({"golden", "status"}, 0);
  lockstep({"golden", "remove", "gold/main", "--key", own.entries[0].key}, 0);
  EXPECT_FALSE(fs::exists(golden_file("gold"))) << "a golden without entries";
}

}  // namespace
}  // namespace lockstep::test
