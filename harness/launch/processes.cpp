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

bool has_environment_entry(pid_t pid, const std::string& entry) {
  const std::string block = '\0' + content_of(proc_file(pid, "environ")) + '\0';
  return block.find('\0' + entry + '\0') != std::string::npos;
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
  bool found = true;
  while (found && std::chrono::steady_clock::now() < give_up) {
    found = false;
    for (const pid_t pid : numbered_entries("/proc")) {
      if (pid == ::getpid() || !has_environment_entry(pid, entry)) continue;
      found = true;
      ::kill(pid, SIGKILL);
      reap_if_dead(pid);
    }
    if (found) std::this_thread::sleep_for(1ms);
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
  bool found = true;
  for (int round = 0; found && round < kRounds; ++round) {
    found = false;
    for (const pid_t pid : adopted()) {
      if (!has_environment_entry(pid, entry)) continue;
      found = true;
      ::kill(pid, SIGKILL);
      wait_and_reap(pid);
    }
  }
}

}  // namespace lockstep::launch
