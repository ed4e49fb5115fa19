#include "harness/launch/scheduling.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "harness/launch/processes.h"

namespace lockstep::launch {
namespace {

std::string process_folder(pid_t pid) { return "/proc/" + std::to_string(pid); }

ThreadTime time_of(const std::string& task) {
  std::ifstream file(task + "/schedstat");
  std::int64_t ran = 0, queued = 0;
  if (!(file >> ran >> queued)) return {};
  return {.ran = std::chrono::nanoseconds(ran), .queued = std::chrono::nanoseconds(queued)};
}

/// Fields 10, 12, 16 and 17 of proc(5), behind the name, which may hold anything.
void add_process(pid_t pid, Scheduling& all) {
  std::ifstream file(process_folder(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 3; i < 10; ++i) fields >> skipped;
  std::uint64_t minor = 0, of_children = 0, major = 0, user = 0, system = 0;
  fields >> minor >> of_children >> major >> skipped >> skipped >> skipped >> user >> system;
  all.page_faults += minor + major;
  all.ended_children += user + system;
}

void add(pid_t pid, Scheduling& all) {
  add_process(pid, all);
  std::vector<pid_t> children;
  for (const pid_t thread : numbered_entries(process_folder(pid) + "/task")) {
    const std::string task = process_folder(pid) + "/task/" + std::to_string(thread);
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
