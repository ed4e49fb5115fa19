#include "harness/app/leftovers.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarker = ".lockstep-traces";
constexpr const char* kPrefix = "lockstep-";

/// A younger one is not removed for its size: somebody may be about to read it, or to lock it.
constexpr double kYoung_days = 1.0 / 24;

/// The marker of a folder that is ours and not in use, with the lock on it; else nothing.
launch::Descriptor lock_of(const fs::path& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode) || status.st_uid != ::getuid()) return {};
  launch::Descriptor marker(::open((folder / kMarker).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  return marker && ::flock(marker.number(), LOCK_EX | LOCK_NB) == 0 ? std::move(marker) : launch::Descriptor();
}

std::uintmax_t size_of(const fs::path& folder) {
  std::uintmax_t bytes = 0;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored)) {
    std::error_code no_file;
    const std::uintmax_t size = at->is_regular_file(no_file) ? at->file_size(no_file) : 0;
    if (!no_file) bytes += size;
  }
  return bytes;
}

double age_in_days(const launch::Descriptor& marker) {
  struct stat status {};
  ::fstat(marker.number(), &status);
  constexpr double kDay_s = 86400;
  return static_cast<double>(::time(nullptr) - status.st_mtime) / kDay_s;
}

}  // namespace

fs::path temporary_base() {
  const char* base = std::getenv("TMPDIR");
  return base != nullptr && *base != '\0' ? base : "/tmp";
}

TemporaryFolder make_temporary_folder() {
  std::string pattern = (temporary_base() / (std::string(kPrefix) + "XXXXXX")).string();
  if (::mkdtemp(pattern.data()) == nullptr)
    throw ResourceError({.what = std::string("cannot make a temporary folder for the runs: ") + std::strerror(errno),
                         .where = pattern,
                         .next = "choose another place with --out"});
  TemporaryFolder made{.path = fs::absolute(pattern), .lock = {}};
  write_file(made.path / kMarker,
             "Traces of one call of lockstep. Later calls remove this folder; `lockstep doctor` says when.\n");
  made.lock = lock_of(made.path);
  return made;
}

std::vector<Leftover> leftovers() {
  std::vector<Leftover> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(temporary_base(), ignored)) {
    if (!entry.path().filename().string().starts_with(kPrefix)) continue;
    const launch::Descriptor marker = lock_of(entry.path());
    if (marker)
      found.push_back({.path = entry.path(), .age_days = age_in_days(marker), .bytes = size_of(entry.path())});
  }
  std::sort(found.begin(), found.end(), [](const Leftover& a, const Leftover& b) { return a.age_days > b.age_days; });
  return found;
}

void sweep_leftovers() {
  const std::vector<Leftover> all = leftovers();
  std::uintmax_t bytes = 0;
  for (const Leftover& one : all) bytes += one.bytes;
  for (const Leftover& one : all) {
    const bool too_much = bytes > kMostKept && one.age_days > kYoung_days;
    if (one.age_days <= kLongestKept_days && !too_much) continue;
    const launch::Descriptor marker = lock_of(one.path);
    std::error_code ignored;
    if (marker) fs::remove_all(one.path, ignored);
    bytes -= one.bytes;
  }
}

}  // namespace lockstep::app
