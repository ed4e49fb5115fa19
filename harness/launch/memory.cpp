#include "harness/launch/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace lockstep::launch {
namespace {

constexpr std::uintmax_t kUnknown = std::numeric_limits<std::uintmax_t>::max();

std::uintmax_t machine_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  std::uintmax_t kibibytes = 0;
  while (file >> name >> kibibytes && std::getline(file, unit)) {
    if (name == "MemAvailable:") return kibibytes << 10;
  }
  return kUnknown;
}

/// A number in a file; nothing where it is missing or holds "max".
std::optional<std::uintmax_t> number_in(const char* path) {
  std::ifstream file(path);
  std::uintmax_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// As a container sees its own group (version 2).
std::uintmax_t group_memory() {
  const auto limit = number_in("/sys/fs/cgroup/memory.max"), used = number_in("/sys/fs/cgroup/memory.current");
  if (!limit || !used) return kUnknown;
  return *limit - std::min(*limit, *used);
}

}  // namespace

std::uintmax_t available_memory() { return std::min(machine_memory(), group_memory()); }

}  // namespace lockstep::launch
