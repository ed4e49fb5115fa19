#include "harness/base/attendance_file.h"

#include <exception>

#include <unistd.h>

#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep {

std::filesystem::path attendance_path(const std::filesystem::path& run_directory, std::int64_t rank) {
  return run_directory / ("rank" + std::to_string(rank) + ".attendance");
}

std::string name_of_this_host() {
  char name[256] = {};
  ::gethostname(name, sizeof name - 1);
  return name;
}

void write_attendance(const std::filesystem::path& path, const std::string& run_id, std::optional<int> code) noexcept {
  try {
    Json said = {{"run", run_id}, {"host", name_of_this_host()}, {"pid", ::getpid()}};
    if (code) said["exit"] = *code;
    replace_file(path, said.dump() + "\n");
  } catch (const std::exception&) {  // the disk is full, for instance
  }
}

}  // namespace lockstep
