#include "harness/launch/processes.h"

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/launch/descriptor.h"

namespace lockstep::launch {
namespace {

/// Empty when the process is gone, before or while we read.
std::string content_of(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string content;
  char buffer[4096];
  ssize_t count = 0;
  while ((count = ::read(file.number(), buffer, sizeof(buffer))) > 0)
    content.append(buffer, static_cast<std::size_t>(count));
  return content;
}

std::string proc_file(pid_t pid, const char* name) { return "/proc/" + std::to_string(pid) + "/" + name; }

/// Whether a process has an entry in its environment.
enum class Marked {
  kNo,
  kYes,
  kUnknown  ///< it shows no environment: it may be about to start another program (execve), or to end
};

Marked is_marked(pid_t pid, const std::string& entry) {
  const std::string environment = content_of(proc_file(pid, "environ"));
  if (environment.empty()) return Marked::kUnknown;
  const std::string block = '\0' + environment + '\0';
  return block.find('\0' + entry + '\0') != std::string::npos ? Marked::kYes : Marked::kNo;
}

/// So often a process without an environment is looked at again, each after a millisecond: one may really have none.
constexpr int kLooksAgain = 20;

bool is_dead(pid_t pid) {
  const std::optional<ProcessState> state = state_of(pid);
  return !state || state->letter == 'Z';
}

/// Whether it runs a program, as zombies and the kernel's threads do not.
bool runs_a_program(pid_t pid) {
  char target = 0;
  return ::readlink(proc_file(pid, "exe").c_str(), &target, sizeof(target)) >= 0;
}

std::vector<pid_t> children() {
  std::vector<pid_t> found;
  for (const pid_t pid : numbered_entries("/proc")) {
    const std::optional<ProcessState> state = state_of(pid);
    if (state && state->parent == ::getpid()) found.push_back(pid);
  }
  return found;
}

bool reap_if_dead(pid_t pid) { return ::waitpid(pid, nullptr, WNOHANG) != 0; }

}  // namespace

std::vector<pid_t> numbered_entries(const std::string& folder) {
  std::vector<pid_t> entries;
  DIR* const directory = ::opendir(folder.c_str());
  if (directory == nullptr) return entries;
  while (const dirent* const item = ::readdir(directory)) {
    const std::string_view name = item->d_name;
    pid_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error == std::errc() && end == name.data() + name.size()) entries.push_back(number);
  }
  ::closedir(directory);
  return entries;
}

std::optional<ProcessState> state_of(pid_t pid) {
  const std::string line = content_of(proc_file(pid, "stat"));
  const std::size_t name_end = line.rfind(')');  // the name before it may hold anything, parentheses included
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  constexpr std::size_t kFirst = 3;  // of the fields of proc(5) behind the name
  if (fields.size() <= 6 - kFirst) return std::nullopt;
  const auto number = [&fields](std::size_t field) {
    return field - kFirst < fields.size() ? std::strtoull(fields[field - kFirst].c_str(), nullptr, 10) : 0;
  };
  return ProcessState{.letter = fields[0][0],
                      .parent = static_cast<pid_t>(number(4)),
                      .session = static_cast<pid_t>(number(6)),
                      .page_faults = number(10) + number(12),
                      .ended_children = number(16) + number(17),
                      .exit_status = static_cast<int>(number(52))};
}

void wait_and_reap(pid_t pid) {
  using namespace std::chrono_literals;
  const auto give_up = std::chrono::steady_clock::now() + 2s;
  while (!reap_if_dead(pid) && std::chrono::steady_clock::now() < give_up) std::this_thread::sleep_for(1ms);
}

void end_all_marked(const std::string& entry) {
  using namespace std::chrono_literals;
  const auto give_up = std::chrono::steady_clock::now() + 2s;
  bool again = true;
  for (int looks_again = 0; again && std::chrono::steady_clock::now() < give_up;) {
    bool found = false, unknown = false;
    for (const pid_t pid : numbered_entries("/proc")) {
      if (pid == ::getpid()) continue;
      const Marked marked = is_marked(pid, entry);
      unknown = unknown || (marked == Marked::kUnknown && runs_a_program(pid));
      if (marked != Marked::kYes) continue;
      found = true;
      ::kill(pid, SIGKILL);
      reap_if_dead(pid);
    }
    again = found || (unknown && ++looks_again <= kLooksAgain);
    if (again) std::this_thread::sleep_for(1ms);
  }
}

OrphanKeeper::OrphanKeeper() {
  ::prctl(PR_GET_CHILD_SUBREAPER, &was_subreaper_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &by_default, &child_action_before_);
  for (const pid_t pid : children()) children_before_.insert(pid);
}

OrphanKeeper::~OrphanKeeper() {
  for (const pid_t pid : adopted()) reap_if_dead(pid);
  ::sigaction(SIGCHLD, &child_action_before_, nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, was_subreaper_);
}

std::vector<pid_t> OrphanKeeper::adopted() const {
  std::vector<pid_t> found;
  for (const pid_t pid : children()) {
    const std::optional<ProcessState> state = state_of(pid);
    // Ranks lead sessions of their own, so whatever descends from one is in another session than we are.
    if (state && state->session != ::getsid(0) && !children_before_.contains(pid)) found.push_back(pid);
  }
  return found;
}

void OrphanKeeper::end_orphans(const std::string& entry) const {
  // The children of an ended one become ours in turn, hence the rounds; their number only bounds a fork bomb.
  constexpr int kRounds = 100;
  bool again = true;
  for (int round = 0, looks_again = 0; again && round < kRounds + looks_again;) {
    bool found = false, unknown = false;
    for (const pid_t pid : adopted()) {
      const Marked marked = is_marked(pid, entry);
      unknown = unknown || (marked == Marked::kUnknown && !is_dead(pid));  // another run may wait for a dead one
      if (marked != Marked::kYes) continue;
      found = true;
      ::kill(pid, SIGKILL);
      wait_and_reap(pid);
    }
    again = found || (unknown && ++looks_again <= kLooksAgain);
    if (again && !found) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++round;
  }
}

}  // namespace lockstep::launch
