// An interrupted lockstep says so and leaves no worker behind, even when it is killed.
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch/patience.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class Interrupted : public EndToEnd {
 protected:
  ~Interrupted() override {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  }

  /// Starts a training of three ranks that hangs at step 1, and waits until its `processes` are there.
  void start(const fs::path& worker = worker_program(), std::size_t processes = 3) {
    Json hanging = scenario({{"world_size", 3}, {"variants", {{"a", Json::object()}, {"b", Json::object()}}}});
    hanging["train"]["faults"] = {fault("hang", 1, 1)};
    start(hanging, worker);
    ASSERT_TRUE(within(30, [&] { return workers().size() == processes; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  }

  void start(const Json& training, const fs::path& worker) {
    const std::string file = write(training), out = scratch_.path() / "runs", json = scratch_.path() / "result.json",
                      program = lockstep_program();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::signal(SIGINT, SIG_DFL);  // a shell's background jobs ignore it, and lockstep would go on to do so
      ::dup2(::open((scratch_.path() / "said").c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
      ::dup2(STDOUT_FILENO, STDERR_FILENO);
      ::execl(program.c_str(), program.c_str(), "run", file.c_str(), "--out", out.c_str(), "--json", json.c_str(),
              "--jobs", "3", "--worker", worker.c_str(), nullptr);
      ::_exit(127);
    }
  }

  /// Processes of our runs: they carry LOCKSTEP_RUN_ID and work below our folder.
  std::vector<pid_t> workers() const {
    std::vector<pid_t> found;
    for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      std::ifstream environment(entry.path() / "environ", std::ios::binary);
      std::error_code gone;
      const fs::path directory = fs::read_symlink(entry.path() / "cwd", gone);
      const std::string text{std::istreambuf_iterator<char>(environment), {}};
      const bool ours = !gone && directory.string().rfind(scratch_.path().string() + "/", 0) == 0;
      if (ours && text.find("LOCKSTEP_RUN_ID=") != std::string::npos) found.push_back(std::stoi(name));
    }
    return found;
  }

  /// Whether a condition holds before lockstep and its workers could have run for so long.
  template <typename Condition>
  bool within(double seconds, const Condition& condition) const {
    launch::Patience patience(Clock::now());
    while (!condition()) {
      patience.pass(Clock::now());
      std::vector<launch::Awaited> processes;
      if (pid_ > 0) processes.push_back({.pid = pid_});
      for (const pid_t worker : workers()) processes.push_back({.pid = worker});
      if (patience.is_over(launch::Patience::Seconds(seconds), processes)) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

  /// How lockstep ended, as a shell would say it; -1 when it did not within `seconds`.
  int exit_code_within(double seconds) {
    int status = 0;
    if (!within(seconds, [&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  pid_t pid_ = -1;
};

TEST_F(Interrupted, ByTheKeyboardOrByTheSystem) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    SCOPED_TRACE(signal);
    fs::remove_all(scratch_.path() / "runs");
    start();
    ::kill(pid_, signal);
    EXPECT_EQ(exit_code_within(10), 130);
    EXPECT_TRUE(workers().empty());
    const Json result = read_json(scratch_.path() / "result.json");
    EXPECT_EQ(result.at("status"), "interrupted");
    EXPECT_EQ(result.at("exit_code"), 130);
    EXPECT_EQ(result.at("failed_runs").size(), 2U);
    for (const Json& run : result.at("failed_runs")) EXPECT_EQ(run.at("status"), "interrupted") << run.dump(1);
    for (const Json& check : result.at("checks")) EXPECT_NE(check.at("status"), "agree") << check.dump(1);
  }
}

TEST_F(Interrupted, TwiceInARow) {
  start();
  ::kill(pid_, SIGINT);
  ::kill(pid_, SIGINT);
  EXPECT_EQ(exit_code_within(10), 130);
  EXPECT_TRUE(workers().empty());
}

/// What was found before stays found; nothing more is tried.
TEST_F(Interrupted, WhileItTriesAgain) {
  const auto worker = script_worker("case $spec in */.experiments/*) sleep 1000;; esac\nexec $worker \"$@\"");
  Json red = scenario({{"variants", {{"a", Json::object()}, {"b", at("train.optimizer.lr", 0.3)}}},
                       {"checks", {check("equal", {{"variants", {"a", "b"}}})}}});
  start(red, worker);
  const fs::path replayed = scratch_.path() / "runs/.experiments/replay/tiny/b/0/run.json";
  ASSERT_TRUE(within(30, [&] { return fs::exists(replayed) && !workers().empty(); }));
  ::kill(pid_, SIGTERM);
  EXPECT_EQ(exit_code_within(10), 1);
  EXPECT_TRUE(workers().empty());
  const Json check = read_json(scratch_.path() / "result.json").at("checks")[0];
  EXPECT_EQ(check.at("status"), "divergence");
  ASSERT_EQ(check.at("experiments").size(), 1U) << check.dump(1);
  expect_says(check.at("experiments")[0].at("shows").get<std::string>(), {"interrupted"});
}

TEST_F(Interrupted, ByForce) {
  start();
  ::kill(pid_, SIGKILL);
  EXPECT_EQ(exit_code_within(5), 128 + SIGKILL);
  EXPECT_TRUE(within(2, [this] { return workers().empty(); }));
}

TEST_F(Interrupted, ByForceWithAWorkerThatIsAScript) {
  start(script_worker("$worker \"$@\"\ntrue"), 6);  // each worker is the child of a script
  ::kill(pid_, SIGKILL);
  EXPECT_EQ(exit_code_within(5), 128 + SIGKILL);
  EXPECT_TRUE(within(2, [this] { return workers().empty(); }));
}

TEST_F(Interrupted, WithAWorkerThatIsAScript) {
  const auto worker = script_worker("sleep 1000 &\n$worker \"$@\"");
  const Json training = scenario({{"train", {{"faults", Json::array({fault("kill", 1, 1)})}}}});
  const Result red = run(training, {"--worker", worker});
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  EXPECT_TRUE(workers().empty());
}

}  // namespace
}  // namespace lockstep::test
