#include "harness/launch/scheduling.h"

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/processes.h"

namespace lockstep::launch {
namespace {

ThreadTime time_of(const std::string& task) {
  std::ifstream file(task + "/schedstat");
  std::int64_t ran = 0, queued = 0;
  if (!(file >> ran >> queued)) return {};
  return {.ran = std::chrono::nanoseconds(ran), .queued = std::chrono::nanoseconds(queued)};
}

void add(pid_t pid, Scheduling& all) {
  const std::optional<ProcessState> state = state_of(pid);
  if (!state) return;
  all.page_faults += state->page_faults;
  all.ended_children += state->ended_children;
  std::vector<pid_t> children;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const pid_t thread : numbered_entries(tasks)) {
    const std::string task = tasks + "/" + std::to_string(thread);
    all.threads[thread] = time_of(task);
    std::ifstream file(task + "/children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  for (const pid_t child : children) {
    if (!all.threads.contains(child)) add(child, all);
  }
}

}  // namespace

Scheduling scheduling_of(pid_t pid) {
  Scheduling all;
  add(pid, all);
  return all;
}

}  // namespace lockstep::launch
