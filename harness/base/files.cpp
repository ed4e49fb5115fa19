#include "harness/base/files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/base/error.h"

namespace lockstep {
namespace {

[[noreturn]] void throw_write_failure(const std::filesystem::path& path, const char* action, int error) {
  throw ResourceError({.what = std::string("cannot ") + action + " a file: " + std::strerror(error),
                       .where = path.string(),
                       .next = error == ENOSPC ? "free disk space, or write to another place" : ""});
}

void write_all(int descriptor, std::string_view bytes, const std::filesystem::path& path) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw_write_failure(path, "write", errno);
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

/// Makes the name of a new or replaced file or folder survive a power loss. Some file systems refuse to sync a folder,
/// which is no failure: the name itself is there.
void sync_name(const std::filesystem::path& path) {
  const int descriptor = ::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int error = descriptor < 0 || ::fsync(descriptor) != 0 ? errno : 0;
  if (descriptor >= 0) ::close(descriptor);
  if (error == EIO || error == ENOSPC || error == EDQUOT) throw_write_failure(path, "keep the name of", error);
}

/// Between the name of a file and the process that writes it anew.
constexpr std::string_view kBeside = ".new-";

/// Digits behind the process, which cannot be foreseen.
constexpr std::size_t kChance = 16;

/// "result.json.new-4711-0123456789abcdef"; of a long name only the beginning, so that the system takes it.
std::filesystem::path name_beside(const std::filesystem::path& path) {
  constexpr std::size_t kMostOfName = 200;
  std::uint64_t chance = 0;
  if (::getrandom(&chance, sizeof chance, 0) != sizeof chance) throw_write_failure(path, "create", errno);
  char digits[kChance + 1];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, chance);
  return path.parent_path() / (path.filename().string().substr(0, kMostOfName) + std::string(kBeside) +
                               std::to_string(::getpid()) + "-" + digits);
}

/// Creates a file beside another one. In a folder where others may write, nothing that they put there is taken: no
/// file, and no link to one.
int create_beside(const std::filesystem::path& path, std::filesystem::path& beside) {
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    beside = name_beside(path);
    const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (descriptor >= 0) return descriptor;
    if (errno != EEXIST) break;
  }
  throw_write_failure(path, "create", errno);
}

void write_whole(const std::filesystem::path& path, std::string_view content, bool survives_power_loss) {
  std::filesystem::path beside;
  const int descriptor = create_beside(path, beside);
  try {
    write_all(descriptor, content, path);
    if (survives_power_loss && ::fsync(descriptor) != 0) throw_write_failure(path, "write", errno);
  } catch (...) {
    ::close(descriptor);
    ::unlink(beside.c_str());
    throw;
  }
  ::close(descriptor);
  if (::rename(beside.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(beside.c_str());
    throw_write_failure(path, "replace", error);
  }
  if (survives_power_loss) sync_name(path);
}

std::filesystem::file_status status_of(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() != std::filesystem::file_type::none) return status;  // "not there" is an answer, too
  throw InputError({.what = "cannot access a file or folder: " + error.message(),
                    .where = path.string(),
                    .next = error == std::errc::too_many_symbolic_link_levels
                                ? "links lead in a circle here: remove one, or name another place"
                                : "name another place, or repair this one"});
}

/// A file that is read from its beginning to its end.
class Reading {
 public:
  Reading(const std::filesystem::path& path, std::uintmax_t most) : path_(path), most_(most) {
    std::error_code ignored;
    const std::filesystem::file_status status = std::filesystem::status(path, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
      throw InputError({.what = "cannot read a file",
                        .where = path.string(),
                        .expected = "a file",
                        .actual = std::filesystem::is_directory(status) ? "a directory" : "a device, pipe or socket"});
    }
    descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail(errno);
    struct stat found = {};
    if (::fstat(descriptor_, &found) == 0) size_ = static_cast<std::uintmax_t>(found.st_size);
    if (size_ > most_) {
      ::close(descriptor_);
      refuse(std::to_string(size_) + " bytes");
    }
  }
  ~Reading() { ::close(descriptor_); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  /// As the system tells it: files of /proc are larger than that.
  std::size_t size() const { return static_cast<std::size_t>(size_); }

  /// The next bytes; none at the end.
  std::string_view next() {
    ssize_t count = 0;
    do {
      count = ::read(descriptor_, block_.data(), block_.size());
    } while (count < 0 && errno == EINTR);
    if (count < 0) fail(errno);
    read_ += static_cast<std::uintmax_t>(count);
    if (read_ > most_) refuse("more, and it grows");
    return {block_.data(), static_cast<std::size_t>(count)};
  }

 private:
  [[noreturn]] void fail(int error) const {
    throw InputError({.what = std::string("cannot read a file: ") + std::strerror(error), .where = path_.string()});
  }

  [[noreturn]] void refuse(const std::string& actual) const {
    throw InputError({.what = "a file is too large",
                      .where = path_.string(),
                      .expected = "at most " + std::to_string(most_) + " bytes",
                      .actual = actual,
                      .next = "is it the file that you mean?"});
  }

  const std::filesystem::path& path_;
  std::uintmax_t most_, size_ = 0, read_ = 0;
  int descriptor_ = -1;
  std::array<char, 1 << 16> block_;
};

[[noreturn]] void throw_too_large_for_memory(const std::filesystem::path& path) {
  throw ResourceError({.what = "a file does not fit into memory",
                       .where = path.string(),
                       .actual = std::to_string(bytes_in_file(path)) + " bytes"});
}

}  // namespace

std::string read_file(const std::filesystem::path& path, std::uintmax_t most) {
  std::string content;
  try {
    Reading reading(path, most);
    content.reserve(reading.size());
    for (std::string_view piece = reading.next(); !piece.empty(); piece = reading.next()) content += piece;
  } catch (const std::bad_alloc&) {
    throw_too_large_for_memory(path);
  } catch (const std::length_error&) {
    throw_too_large_for_memory(path);
  }
  return content;
}

void read_pieces(const std::filesystem::path& path, const std::function<void(std::string_view)>& take) {
  Reading reading(path, kMostFileBytes);
  for (std::string_view piece = reading.next(); !piece.empty(); piece = reading.next()) take(piece);
}

std::uintmax_t bytes_in_file(const std::filesystem::path& path) {
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error && std::filesystem::is_regular_file(status_of(path)))
    throw InputError({.what = "cannot read a file: " + error.message(), .where = path.string()});
  return error ? 0 : size;  // a device has none
}

bool is_there(const std::filesystem::path& path) { return std::filesystem::exists(status_of(path)); }

bool is_folder(const std::filesystem::path& path) { return std::filesystem::is_directory(status_of(path)); }

std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<fs::path> entries;
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  } catch (const fs::filesystem_error& error) {
    throw InputError({.what = "cannot list a folder: " + error.code().message(), .where = folder.string()});
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<std::string> files_below(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  try {
    for (const fs::directory_entry& entry :
         fs::recursive_directory_iterator(folder, fs::directory_options::follow_directory_symlink)) {
      if (!entry.is_directory()) names.push_back(entry.path().lexically_relative(folder).string());
    }
  } catch (const fs::filesystem_error& error) {
    throw InputError({.what = "cannot list a folder: " + error.code().message(), .where = error.path1().string()});
  }
  std::sort(names.begin(), names.end());
  return names;
}

void replace_file(const std::filesystem::path& path, std::string_view content) { write_whole(path, content, true); }

void write_file(const std::filesystem::path& path, std::string_view content) { write_whole(path, content, false); }

bool is_half_written(const std::filesystem::path& path) {
  const std::string name = path.filename().string();
  const std::size_t at = name.rfind(kBeside);
  if (at == std::string::npos) return false;
  int process = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + at + kBeside.size(), end, process);
  const std::string_view chance(rest, end);
  const bool is_ours = chance.size() == kChance + 1 && chance.front() == '-' &&
                       chance.find_first_not_of("0123456789abcdef", 1) == std::string_view::npos;
  return error == std::errc() && is_ours && process > 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

void make_directories(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw_write_failure(path, "create the directory of", error.value());
}

void make_lasting_directories(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> missing;
  std::error_code ignored;  // that is found below
  for (std::filesystem::path at = path; at.has_relative_path() && !std::filesystem::exists(at, ignored);)
    missing.push_back(std::exchange(at, at.parent_path()));
  make_directories(path);
  for (const std::filesystem::path& made : missing) sync_name(made);
}

void copy_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
  make_directories(to);
  std::error_code error;
  std::filesystem::copy(from, to,
                        std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks, error);
  if (error) throw_write_failure(to, "copy a folder to", error.value());
}

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0) throw_write_failure(folder, "lock", errno);
  while (::flock(descriptor_, LOCK_EX) != 0 && errno == EINTR) {
  }
}

FolderLock::~FolderLock() { ::close(descriptor_); }

AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw_write_failure(path_, "create", errno);
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

void AppendFile::append(std::string_view bytes) { write_all(descriptor_, bytes, path_); }

}  // namespace lockstep
