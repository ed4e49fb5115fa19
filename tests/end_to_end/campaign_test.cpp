// A lockstep that was killed goes on where it was, and says what one says that nobody killed.
#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class CampaignEndToEnd : public EndToEnd {
 protected:
  ~CampaignEndToEnd() override { end(SIGKILL); }

  /// Seven runs: one loads from another, one loses a rank, and two variants differ.
  static Json training() {
    return scenario({{"repeats", 2},
                     {"variants",
                      {{"slow", {{"train", {{"checkpoint", {{"save_after", 4}}}}}}},
                       {"fast", at("train.optimizer.lr", 0.2)},
                       {"longer", {{"train", {{"steps", 6}, {"checkpoint", {{"load", {{"from", "slow"}}}}}}}}},
                       {"killed", {{"train", {{"faults", Json::array({fault("kill", 2, 1)})}}}}}}},
                     {"checks",
                      {check("repeatable", {{"variants", {"slow", "fast", "longer"}}}),
                       check("finishes", {{"variants", {"killed"}},
                                          {"expect",
                                           {{"status", "divergence"},
                                            {"reason", "a rank is killed"},
                                            {"class", "liveness"},
                                            {"at", {{"step", 2}, {"rank", 1}}}}}}),
                       check("equal", {{"variants", {"slow", "fast"}}})}}});
  }

  fs::path out() const { return scratch_.path() / "runs"; }

  std::vector<std::string> words(const Json& training, bool resume) const {
    std::vector<std::string> all = {"run",    write(training).string(),   "--out",  out(), "--golden", golden_root(),
                                    "--json", scratch_.path() / "result", "--jobs", "4"};
    if (resume) all.emplace_back("--resume");
    return all;
  }

  /// Starts lockstep and does not wait for it.
  void start(std::vector<std::string> words) {
    words.insert(words.begin(), lockstep_program());
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::signal(SIGINT, SIG_DFL);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, STDOUT_FILENO);
    ::dup2(nowhere, STDERR_FILENO);
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }

  void end(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  void wait_for(const fs::path& file) const {
    const auto deadline = Clock::now() + std::chrono::minutes(10);
    while (!fs::exists(file) && Clock::now() < deadline) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE(fs::exists(file)) << file;
  }

  /// The result of a lockstep that ended, without its time.
  Json result() const {
    Json json = read_json(scratch_.path() / "result");
    json.erase("wall_s");
    return json;
  }

  pid_t pid_ = -1;
};

/// With SIGKILL and Ctrl-C by turns, some of them while a resumed one goes on.
TEST_F(CampaignEndToEnd, KilledAtRandomInstantsItEndsAsIfNobodyHad) {
  const Outcome whole = run_lockstep(words(training(), false));
  ASSERT_EQ(whole.exit_code, 1) << whole.out << whole.err;
  const Json expected = result();
  ASSERT_EQ(expected.at("checks").size(), 3U);
  std::mt19937 random(20);
  for (int trial = 0; trial < 4; ++trial) {
    fs::remove_all(out());
    fs::remove(scratch_.path() / "result");
    bool resume = false;
    std::string instants;
    for (const int signal : {SIGKILL, SIGINT, SIGKILL}) {
      const auto instant = std::chrono::milliseconds(random() % 700);
      start(words(training(), resume));
      std::this_thread::sleep_for(instant);
      end(signal);
      resume = fs::exists(out() / "campaign.json");
      instants += " " + std::to_string(instant.count()) + " ms";
    }
    SCOPED_TRACE("ended after" + instants);
    const Outcome last = run_lockstep(words(training(), resume));
    EXPECT_EQ(last.exit_code, whole.exit_code) << last.out << last.err;
    EXPECT_EQ(result(), expected) << last.out << last.err;
  }
}

TEST_F(CampaignEndToEnd, OneThatWasKilledWhileItBeganBeginsAnew) {
  constexpr int kNobody = 1 << 30;  // above every process id
  fs::create_directories(out());
  const fs::path half = out() / ("campaign.json.new-" + std::to_string(kNobody) + "-0123456789abcdef");
  write_lines(half, {"{"});
  const Outcome begun = run_lockstep(words(scenario(), false));
  EXPECT_EQ(begun.exit_code, 0) << begun.out << begun.err;
  EXPECT_FALSE(fs::exists(half));
  fs::remove_all(out());
  fs::create_directories(out());
  // somebody's who is at work
  write_lines(out() / ("campaign.json.new-" + std::to_string(::getpid()) + "-0123456789abcdef"), {"{"});
  EXPECT_EQ(run_lockstep(words(scenario(), false)).exit_code, 2);
}

TEST_F(CampaignEndToEnd, RunsThatEndedAreNotStartedAgain) {
  const fs::path starts = scratch_.path() / "starts", may_go_on = scratch_.path() / "may_go_on";
  const fs::path worker = script_worker("echo \"$spec\" >>'" + starts.string() + "'\ncase $spec in */b/*) [ -e '" +
                                        may_go_on.string() + "' ] || sleep 1000;; esac\nexec $worker \"$@\"");
  const Json two = scenario({{"variants", {{"a", Json::object()}, {"b", Json::object()}}}});
  std::vector<std::string> first = words(two, false), second = words(two, true);
  for (auto* command : {&first, &second}) command->insert(command->end(), {"--worker", worker});
  start(first);
  wait_for(out() / "tiny/a/0/outcome.json");
  wait_for(out() / "tiny/b/0/rank1.log");
  end(SIGKILL);
  scratch_.write("may_go_on", "");
  const Outcome resumed = run_lockstep(second);
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  const std::string started = read_text(starts);
  const auto count = [&](const std::string& part) {
    std::size_t found = 0;
    for (std::size_t at = started.find(part); at != std::string::npos; at = started.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("/a/0/"), 2U) << started;  // its two ranks
  EXPECT_EQ(count("/b/0/"), 4U) << started;
}

/// What a power loss may leave: an outcome, and traces that never reached the disk.
TEST_F(CampaignEndToEnd, AFinishedRunWhoseTracesAreCutIsStartedAgain) {
  const Outcome whole = run_lockstep(words(training(), false));
  const Json expected = result();
  fs::resize_file(out() / "tiny/fast/1/rank0.jsonl", 1000);
  fs::remove(out() / "tiny/slow/0/rank1.jsonl");
  for (const char* rank : {"rank0.jsonl", "rank1.jsonl"})
    rewrite(out() / "tiny/fast/0" / rank, [](trace::Trace& trace) { trace.steps.erase(trace.steps.begin() + 1); });
  const Outcome resumed = run_lockstep(words(training(), true));
  EXPECT_EQ(resumed.exit_code, whole.exit_code) << resumed.out << resumed.err;
  EXPECT_EQ(result(), expected);
}

TEST_F(CampaignEndToEnd, AnotherFolderOrAnotherScenarioIsRefused) {
  const auto expect_refused = [](const Outcome& outcome, const std::vector<std::string>& parts) {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
    expect_says(outcome.err, parts);
  };
  expect_refused(run_lockstep(words(training(), true)), {"there is no campaign to resume", "campaign.json"});
  scratch_.write("runs/tiny/slow/0/diary.txt", "mine");
  expect_refused(run_lockstep(words(training(), true)), {"there is no campaign to resume"});
  EXPECT_TRUE(fs::exists(out() / "tiny/slow/0/diary.txt"));
  fs::remove_all(out());
  ASSERT_EQ(run_lockstep(words(training(), false)).exit_code, 1);
  Json other = training();
  other["variants"]["fast"] = at("train.optimizer.lr", 0.3);
  expect_refused(run_lockstep(words(other, true)), {"a campaign of other runs", "tiny/fast/0"});
  Json less = training();
  less["train"]["record"]["every"] = 2;
  expect_refused(run_lockstep(words(less, true)), {"a campaign of other runs"});
  EXPECT_TRUE(fs::exists(out() / "tiny/fast/0/rank0.jsonl"));
}

TEST_F(CampaignEndToEnd, TwoLockstepsDoNotWorkInOneFolder) {
  const Json hanging = scenario({{"train", {{"faults", Json::array({fault("hang", 1, 1)})}}}});
  start(words(hanging, false));
  wait_for(out() / "tiny/main/0/rank1.progress");
  const Outcome second = run_lockstep(words(hanging, true));
  EXPECT_EQ(second.exit_code, 2) << second.out << second.err;
  expect_says(second.err, {"another lockstep works in this folder"});
}

}  // namespace
}  // namespace lockstep::test
