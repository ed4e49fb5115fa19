// A file layer that fails. LD_PRELOAD puts it between a program and the system.
//
// It counts the program's operations on files below FAILING_FILES_BELOW. The one with the number FAILING_FILES_AT, from
// 1, fails. FAILING_FILES_KIND says how:
//   once       this operation alone fails
//   for_good   this operation and all later ones fail; the first, if it writes, writes a half and says so
//   drop       the power is lost before it: bytes of files that were not fsynced are gone
//   garble     the same, and the second half of those files is zeros instead
//   undo       the same as drop, and names changed in a folder that was not fsynced are as before
//   late       this operation alone fails; at the end, the power is lost as by undo
// The last four count only operations that change something. Before the power is lost, a write is half done. If the
// program ends without the operation, the power is lost then. The file FAILING_FILES_REPORT names the operation, if it
// was reached.
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

namespace fs = std::filesystem;

/// Set while the layer itself uses files.
thread_local bool is_inside = false;

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Content of a file; none if it is not there.
std::optional<std::string> content_of(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return std::nullopt;
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

void put_back(const fs::path& file, const std::optional<std::string>& content) {
  if (content) std::ofstream(file, std::ios::binary) << *content;
  if (!content) fs::remove(file);
}

/// A changed name that the disk does not hold yet.
struct Change {
  fs::path folder;
  std::function<void()> undo;
};

class Layer {
 public:
  Layer()
      : kind_(from_environment("FAILING_FILES_KIND")),
        below_(from_environment("FAILING_FILES_BELOW") + "/"),
        report_(from_environment("FAILING_FILES_REPORT")),
        at_(std::atol(from_environment("FAILING_FILES_AT").c_str())),
        process_(::getpid()) {
    for (const char* name : {"LD_PRELOAD", "FAILING_FILES_KIND"}) ::unsetenv(name);  // not for programs it starts
  }

  bool watches(const fs::path& path) const {
    return !is_inside && process_ == ::getpid() && (path.string() + "/").starts_with(below_);
  }

  fs::path path_of(int descriptor) const {
    const auto found = open_.find(descriptor);
    return found == open_.end() ? fs::path() : found->second;
  }

  /// Counts an operation. Its error, if it fails; else 0. `half` is called before the power is lost at it.
  int error_of(const std::string& name, const fs::path& path, bool changes, const std::function<void()>& half = {}) {
    if (loses_power_ && !changes) return 0;
    ++count_;
    if (count_ == at_) {
      std::ofstream(report_) << name << " " << path.string();
      if (loses_power_ && kind_ != "late") {
        if (half) half();
        lose_power();
        ::kill(process_, SIGKILL);
      }
    }
    const bool fails = count_ == at_ || (kind_ == "for_good" && count_ > at_);
    return !fails ? 0 : changes && kind_ == "for_good" ? ENOSPC : EIO;
  }

  bool is_first_of_good() const { return kind_ == "for_good" && count_ == at_; }

  void opened(int descriptor, const fs::path& path) { open_[descriptor] = path; }
  void closed(int descriptor) { open_.erase(descriptor); }
  void written(const fs::path& path) { unsynced_.insert(path); }

  void synced(const fs::path& path) {
    unsynced_.erase(path);
    std::erase_if(changes_, [&](const Change& change) { return change.folder == path; });
  }

  void created(const fs::path& path) {
    changes_.push_back({path.parent_path(), [path] { fs::remove_all(path); }});
  }

  void removed(const fs::path& path, const std::optional<std::string>& before) {
    unsynced_.erase(path);
    changes_.push_back({path.parent_path(), [=] { put_back(path, before); }});
  }

  void renamed(const fs::path& from, const fs::path& to, const std::optional<std::string>& before) {
    unsynced_.erase(to);
    if (unsynced_.erase(from) != 0) unsynced_.insert(to);
    changes_.push_back({to.parent_path(), [=] {
                          fs::rename(to, from);
                          put_back(to, before);
                        }});
  }

  /// The program ended.
  void end() {
    if (process_ == ::getpid() && loses_power_) lose_power();
  }

  std::mutex mutex;

 private:
  void lose_power() {
    is_inside = true;
    for (const fs::path& path : unsynced_) {
      const std::string content = content_of(path).value_or("");
      const std::size_t half = content.size() / 2;
      put_back(path, kind_ == "garble" ? content.substr(0, half) + std::string(content.size() - half, '\0') : "");
    }
    if (kind_ != "undo" && kind_ != "late") return;
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) change->undo();
  }

  const std::string kind_, below_, report_;
  const bool loses_power_ = kind_ != "once" && kind_ != "for_good";
  const long at_;
  const pid_t process_;
  long count_ = 0;
  std::map<int, fs::path> open_;
  std::set<fs::path> unsynced_;
  std::vector<Change> changes_;
};

Layer* layer = nullptr;  // stays: other libraries may use files after this one has ended

[[gnu::constructor]] void begin() { layer = new Layer; }
[[gnu::destructor]] void end() { layer->end(); }

template <typename Function>
Function* next(Function* /*of its type*/, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

/// Calls `real` if the layer lets it, then `done` if it worked. `failed`: its result if not.
template <typename Real, typename Done>
auto passed(const char* name, const fs::path& path, bool changes, decltype(std::declval<Real>()()) failed, Real real,
            Done done) {
  if (layer == nullptr || !layer->watches(path)) return real();
  const std::lock_guard lock(layer->mutex);
  is_inside = true;
  const int error = layer->error_of(name, path, changes);
  auto result = failed;
  if (error == 0) result = real();
  const int found = error == 0 ? errno : error;
  if (result != failed) done(result);
  is_inside = false;
  errno = found;
  return result;
}

constexpr auto kNothing = [](const auto&) {};

fs::path watched_path(int descriptor) {
  return layer == nullptr || is_inside ? fs::path() : layer->path_of(descriptor);
}

std::optional<std::string> before_change(const fs::path& path) {
  if (layer == nullptr || !layer->watches(path)) return std::nullopt;
  is_inside = true;
  std::optional<std::string> content = content_of(path);
  is_inside = false;
  return content;
}

template <typename Real>
int open_passed(const fs::path& path, int flags, Real real) {
  const bool is_new = (flags & O_CREAT) != 0 && ::access(path.c_str(), F_OK) != 0;
  const bool changes = (flags & (O_CREAT | O_TRUNC)) != 0;
  return passed("open", path, changes, -1, real, [&](int descriptor) {
    layer->opened(descriptor, path);
    if (is_new) layer->created(path);
    if ((flags & O_TRUNC) != 0) layer->written(path);
  });
}

mode_t mode_in(int flags, va_list rest) { return (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0; }

}  // namespace

#define NEXT(name) next(&::name, #name)

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return open_passed(path, flags, [&] { return NEXT(open)(path, flags, mode); });
}

int open64(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  return open_passed(path, flags, [&] { return NEXT(open64)(path, flags, mode); });
}

int openat(int folder, const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = mode_in(flags, rest);
  va_end(rest);
  const fs::path whole = folder == AT_FDCWD ? fs::path(path) : watched_path(folder) / path;
  return open_passed(whole, flags, [&] { return NEXT(openat)(folder, path, flags, mode); });
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  const fs::path path = watched_path(descriptor);
  const auto real = [&](size_t size) { return NEXT(write)(descriptor, bytes, size); };
  if (layer == nullptr || !layer->watches(path)) return real(count);
  const std::lock_guard lock(layer->mutex);
  is_inside = true;
  layer->written(path);
  const int error = layer->error_of("write", path, true, [&] { real(count / 2); });
  const bool is_half = error != 0 && layer->is_first_of_good() && count > 1;
  const ssize_t written = error == 0 ? real(count) : is_half ? real(count / 2) : -1;
  is_inside = false;
  if (written < 0 && error != 0) errno = error;
  return written;
}

ssize_t read(int descriptor, void* bytes, size_t count) {
  return passed(
      "read", watched_path(descriptor), false, ssize_t{-1}, [&] { return NEXT(read)(descriptor, bytes, count); },
      kNothing);
}

/// Does not wait for the disk where the layer watches: no power is really lost.
int fsync(int descriptor) {
  const fs::path path = watched_path(descriptor);
  return passed(
      "fsync", path, true, -1, [&] { return is_inside ? 0 : NEXT(fsync)(descriptor); },
      [&](int) { layer->synced(path); });
}

int close(int descriptor) {
  const fs::path path = watched_path(descriptor);
  const auto real = [&] { return NEXT(close)(descriptor); };
  if (layer == nullptr || !layer->watches(path)) return real();
  layer->closed(descriptor);
  const int error = passed(
                        "close", path, false, -1, [] { return 0; }, kNothing) == 0
                        ? 0
                        : errno;
  const int result = real();  // closed in any case, as Linux does
  if (error != 0) errno = error;
  return error == 0 ? result : -1;
}

int rename(const char* from, const char* to) noexcept {
  const std::optional<std::string> before = before_change(to);
  return passed(
      "rename", to, true, -1, [&] { return NEXT(rename)(from, to); }, [&](int) { layer->renamed(from, to, before); });
}

int unlink(const char* path) noexcept {
  const std::optional<std::string> before = before_change(path);
  return passed(
      "unlink", path, true, -1, [&] { return NEXT(unlink)(path); }, [&](int) { layer->removed(path, before); });
}

int remove(const char* path) noexcept {
  const std::optional<std::string> before = before_change(path);
  return passed(
      "remove", path, true, -1, [&] { return NEXT(remove)(path); }, [&](int) { layer->removed(path, before); });
}

int mkdir(const char* path, mode_t mode) noexcept {
  return passed(
      "mkdir", path, true, -1, [&] { return NEXT(mkdir)(path, mode); }, [&](int) { layer->created(path); });
}

int flock(int descriptor, int operation) noexcept {
  return passed(
      "flock", watched_path(descriptor), false, -1, [&] { return NEXT(flock)(descriptor, operation); }, kNothing);
}

int stat(const char* path, struct stat* found) noexcept {
  return passed(
      "stat", path, false, -1,
      [&] { return next(static_cast<int (*)(const char*, struct stat*)>(&::stat), "stat")(path, found); }, kNothing);
}

int fstat(int descriptor, struct stat* found) noexcept {
  return passed(
      "fstat", watched_path(descriptor), false, -1, [&] { return NEXT(fstat)(descriptor, found); }, kNothing);
}

DIR* opendir(const char* path) {
  return passed(
      "opendir", path, false, static_cast<DIR*>(nullptr), [&] { return NEXT(opendir)(path); },
      [&](DIR* opened) { layer->opened(::dirfd(opened), path); });
}

dirent* readdir(DIR* folder) {
  return passed(
      "readdir", watched_path(::dirfd(folder)), false, static_cast<dirent*>(nullptr),
      [&] { return NEXT(readdir)(folder); }, kNothing);
}

}  // extern "C"
