#include "tests/launch/run_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <dirent.h>
#include <sys/wait.h>

#include "harness/base/files.h"
#include "harness/launch/local.h"
#include "harness/launch/patience.h"
#include "harness/launch/processes.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

/// No test waits for longer, whatever the machine does.
constexpr std::chrono::minutes kGiveUp{10};

}  // namespace

Scratch::Scratch() {
  std::string pattern = (std::filesystem::temp_directory_path() / "lockstep-launch-XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = pattern;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Job Scratch::job(const std::string& run, std::int64_t world_size, std::vector<std::string> script) const {
  Job job{.run = run, .directory = path_ / run, .command = {FAKE_RANK}, .world_size = world_size, .deadline_s = 600};
  if (std::getenv("LOCKSTEP_TEST_EXECUTED") == nullptr) job.fork_group = 0;
  job.command.insert(job.command.end(), script.begin(), script.end());
  make_directories(job.directory);
  return job;
}

std::string Scratch::text(const std::string& run, const std::string& file) const {
  return read_file(path_ / run / file);
}

pid_t Scratch::pid(const std::string& run, const std::string& file) const {
  const auto give_up = steady_clock::now() + kGiveUp;
  while (!std::filesystem::exists(path_ / run / file)) {
    if (steady_clock::now() > give_up) throw std::runtime_error("no file " + file);
    std::this_thread::sleep_for(milliseconds(2));
  }
  return std::stoi(text(run, file));
}

std::filesystem::path recorded_environments() { return RECORDED_ENVIRONMENTS; }

std::vector<RunOutcome> run_locally(const std::vector<Job>& jobs, int max_processes) {
  ForkServers servers;
  LocalLauncher launcher(max_processes, servers);
  Observer nobody;
  return launch_all(jobs, launcher, nobody);
}

RunOutcome run_one(const Job& job) {
  constexpr int kPlenty = 64;
  return run_locally({job}, kPlenty).at(0);
}

bool alive(pid_t pid) {
  const auto state = state_of(pid);
  return state && state->letter != 'Z' && state->letter != 'X';
}

double last_end_s(const RunOutcome& outcome) {
  double last = 0;
  for (const RankExit& rank : outcome.ranks) last = std::max(last, rank.after_s);
  return last;
}

bool gone_within(pid_t pid, milliseconds limit) {
  Patience patience(steady_clock::now());
  while (alive(pid)) {
    patience.pass(steady_clock::now());
    if (patience.is_over(limit, {{.pid = pid}})) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

int number_of_children() {
  int count = 0;
  for (const auto& item : std::filesystem::directory_iterator("/proc")) {
    const std::string name = item.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto state = state_of(std::stoi(name));
    if (state && state->parent == ::getpid()) ++count;
  }
  return count;
}

int number_of_descriptors() {
  const std::filesystem::directory_iterator items("/proc/self/fd");
  return static_cast<int>(std::distance(begin(items), end(items)));
}

int wait_for(pid_t pid) {
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace lockstep::launch
