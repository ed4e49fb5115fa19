// What stderr shows while runs go: a line that changes on a terminal, a line for each scenario elsewhere.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <sstream>

#include <fcntl.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// Columns of the terminal.
constexpr unsigned short kColumns = 60;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

class DisplayEndToEnd : public EndToEnd {
 protected:
  /// Two runs that take a second each, one after the other.
  fs::path slow_scenario() const {
    return write(scenario({{"repeats", 2}, {"launch", {{"step_delay_ms", {250, 250}}}}}));
  }

  /// What a terminal gets of `lockstep run`; stdout goes to a file.
  std::string on_terminal(const fs::path& file, const char* term) {
    const std::string program = lockstep_program(), out = scratch_.path() / "out", runs = scratch_.path() / "runs";
    int terminal = -1;
    const winsize size{.ws_row = 24, .ws_col = kColumns, .ws_xpixel = 0, .ws_ypixel = 0};
    const auto begin = std::chrono::steady_clock::now();
    const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
    if (child == 0) {
      ::setenv("TERM", term, 1);
      ::dup2(::open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
      ::execl(program.c_str(), program.c_str(), "run", file.c_str(), "--out", runs.c_str(), "--jobs", "2", nullptr);
      ::_exit(127);
    }
    std::string seen;
    char block[4096];
    for (ssize_t count = 0; (count = ::read(terminal, block, sizeof block)) > 0;)
      seen.append(block, static_cast<std::size_t>(count));
    ::close(terminal);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << seen;
    wall_s_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return seen;
  }

  double wall_s_ = 0;
};

TEST_F(DisplayEndToEnd, ATerminalHasOneLineThatIsGoneInTheEnd) {
  const std::string seen = on_terminal(slow_scenario(), "xterm");
  expect_says(seen, {"lockstep: 0 of 2 runs done", "1 of 2 runs done", "tiny/main/0 starts", " s left"});
  EXPECT_EQ(seen.find('\n'), std::string::npos) << "one line";
  EXPECT_TRUE(seen.ends_with("\r\033[K")) << seen;
  EXPECT_LE(static_cast<double>(count_of(seen, "\r")), 10 * wall_s_ + 3) << "ten times a second at most";
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = seen.find("\033[K", begin)) != std::string::npos; begin = end + 3)
    EXPECT_LT(end - begin, kColumns + 1U) << "a line that wraps cannot be cleared";
  const std::string out = read_text(scratch_.path() / "out");
  EXPECT_EQ(out.find("runs done"), std::string::npos) << out;
}

TEST_F(DisplayEndToEnd, ATerminalShowsTheSteps) {
  Json one = scenario({{"name", "s"}, {"launch", {{"step_delay_ms", {300}}}}});
  const std::string seen = on_terminal(write(one), "xterm");
  expect_says(seen, {"s/main/0 step ", " of 4"});
}

TEST_F(DisplayEndToEnd, ANarrowTerminalShowsWholeRunsAndHowManyMore) {
  const Json many = scenario({{"name", "s"},
                              {"world_size", 1},
                              {"variants", {{"a", Json::object()}, {"b", Json::object()}, {"c", Json::object()}}},
                              {"checks", Json::array({check("ledger")})},
                              {"launch", {{"step_delay_ms", {300}}}}});
  const std::string seen = on_terminal(write(many), "xterm");
  expect_says(seen, {" and 1 more"});
  std::istringstream lines(seen);
  for (std::string line; std::getline(lines, line, '\r');) {
    if (!line.ends_with("\033[K")) continue;
    line.resize(line.size() - 3);
    const bool whole = line.empty() || line.ends_with("done") || line.ends_with(" left") || line.ends_with(" starts") ||
                       line.ends_with(" of 4") || line.ends_with(" more");
    EXPECT_TRUE(whole) << line;
  }
}

TEST_F(DisplayEndToEnd, ADumbTerminalHasALineForEachScenario) {
  const std::string seen = on_terminal(slow_scenario(), "dumb");
  expect_says(seen, {"lockstep: scenario 1 of 1, tiny, 2 of 2 runs finished after "});
  EXPECT_EQ(seen.find("lockstep: run "), std::string::npos) << seen;
  EXPECT_EQ(seen.find("\033"), std::string::npos) << seen;
}

TEST_F(DisplayEndToEnd, ElsewhereEachScenarioHasALineAndEachControlRun) {
  const Json pair = scenario({{"variants", {{"a", Json::object()}, {"b", at("train.optimizer.lr", 0.2)}}},
                              {"checks", Json::array({check("equal", {{"variants", {"a", "b"}}})})}});
  const Result red = run(pair);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
  expect_says(red.process.err, {"lockstep: scenario 1 of 1, tiny, 2 of 2 runs finished after "});
  EXPECT_GT(count_of(red.process.err, "lockstep: run 1 of "), 0U) << "control runs: " << red.process.err;
  EXPECT_EQ(red.process.err.find("\033"), std::string::npos);
  EXPECT_EQ(red.process.out.find("lockstep: run "), std::string::npos) << red.process.out;
}

TEST_F(DisplayEndToEnd, ARunThatEndsBadlySaysWhy) {
  const Result red = run(scenario(), {"--worker", script_worker("exit 9")});
  expect_says(red.process.err, {"lockstep: run 1 of 1, tiny/main/0, failed after ", "exited with code 9",
                                "lockstep: scenario 1 of 1, tiny, 0 of 1 runs finished"});
}

TEST_F(DisplayEndToEnd, VerboseHasALineForEachRunAndCheck) {
  const fs::path file = write(scenario({{"repeats", 2}, {"checks", {check("ranks_agree"), check("repeatable")}}}));
  const Outcome green = run_lockstep({"run", file, "--verbose"});
  EXPECT_EQ(green.exit_code, 0);
  expect_says(green.err, {"lockstep: run 1 of 2, tiny/main/", "lockstep: run 2 of 2, tiny/main/"});
  expect_says(green.out,
              {"scenario ", "AGREE  tiny: checks.0 ranks_agree (main): ", " records compared\nAGREE  tiny: checks.1"});
}

// A check that compares less than it might is no silence's to keep.
TEST_F(DisplayEndToEnd, QuietSaysNothingOfWhatIsWell) {
  const Outcome green = run_lockstep({"run", write(scenario()), "--quiet"});
  EXPECT_EQ(green.exit_code, 0);
  EXPECT_EQ(green.err, "");
  EXPECT_TRUE(green.out.starts_with("agree: 1 scenario, 1 of 1 runs finished, ")) << green.out;
  EXPECT_EQ(count_of(green.out, "\n"), 1U);
  const Outcome less = run_lockstep({"run", write(scenario(at("train.record.channels", {"gradient"}))), "--quiet"});
  EXPECT_TRUE(less.out.starts_with("NOTE  tiny: ranks_agree did not compare ")) << less.out << less.err;
  const Outcome red = run_lockstep({"run", write(scenario()), "--quiet", "--worker", script_worker("exit 9")});
  EXPECT_TRUE(red.out.starts_with("DIVERGENCE  run tiny/main/0: failed\n")) << red.out;
  expect_says(red.err, {"lockstep: run 1 of 1, tiny/main/0, failed after "});
  EXPECT_EQ(run_lockstep({"run", "x", "--quiet", "--verbose"}).exit_code, 2);
}

}  // namespace
}  // namespace lockstep::test
