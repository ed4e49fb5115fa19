#include "harness/launch/scheduling.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "harness/launch/processes.h"

namespace lockstep::launch {
namespace {

std::string process_folder(pid_t pid) { return "/proc/" + std::to_string(pid); }

std::chrono::nanoseconds queued_time_of(const std::string& task) {
  std::ifstream file(task + "/schedstat");
  std::int64_t ran = 0, queued = 0;
  return std::chrono::nanoseconds(file >> ran >> queued ? queued : 0);
}

/// Fields 10 and 12 of proc(5), behind the name, which may hold anything.
std::uint64_t page_faults_of(pid_t pid) {
  std::ifstream file(process_folder(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int i = 3; i < 10; ++i) fields >> skipped;
  std::uint64_t minor = 0, of_children = 0, major = 0;
  fields >> minor >> of_children >> major;
  return minor + major;
}

void add(pid_t pid, Scheduling& all) {
  all.page_faults += page_faults_of(pid);
  std::vector<pid_t> children;
  for (const pid_t thread : numbered_entries(process_folder(pid) + "/task")) {
    const std::string task = process_folder(pid) + "/task/" + std::to_string(thread);
    all.queued[thread] = queued_time_of(task);
    std::ifstream file(task + "/children");
    for (pid_t child = 0; file >> child;) children.push_back(child);
  }
  for (const pid_t child : children) {
    if (!all.queued.contains(child)) add(child, all);
  }
}

}  // namespace

Scheduling scheduling_of(pid_t pid) {
  Scheduling all;
  add(pid, all);
  return all;
}

}  // namespace lockstep::launch
