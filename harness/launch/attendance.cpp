#include "harness/launch/attendance.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <exception>
#include <sstream>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/attendance_file.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/launch/processes.h"

namespace lockstep::launch {
namespace {

Descriptor descriptor_of(pid_t pid) { return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

/// As in linux/pidfd.h of Linux 6.15; Debian 12 has older headers. Older kernels refuse the request.
struct PidfdInfo {
  std::uint64_t mask = 0;
  std::uint64_t cgroup = 0;
  std::uint32_t ids[11] = {};
  std::int32_t exit_code = 0;
};
constexpr std::uint64_t kExitWanted = 1 << 3;

/// Status of a process that its parent has reaped, as wait() gave it.
std::optional<int> status_of_reaped(const Descriptor& process) {
  constexpr unsigned long kGetInfo = _IOWR(0xFF, 11, PidfdInfo);
  PidfdInfo info{.mask = kExitWanted};
  if (::ioctl(process.number(), kGetInfo, &info) != 0 || (info.mask & kExitWanted) == 0) return std::nullopt;
  return info.exit_code;
}

Process::Exit exit_of(int status) {
  if (WIFSIGNALED(status)) return {.signalled = true, .value = WTERMSIG(status)};
  return {.signalled = false, .value = WEXITSTATUS(status)};
}

/// The rank's own word.
std::optional<Process::Exit> word_in(const std::filesystem::path& path) {
  try {
    const Json said = parse_json(read_file(path), path.string());
    if (said.contains("exit")) return Process::Exit{.value = said["exit"].get<int>()};
  } catch (const std::exception&) {  // it never wrote, or could not
  }
  return std::nullopt;
}

}  // namespace

Attendance::Attendance(const std::filesystem::path& run_directory, std::int64_t rank, std::string run_id)
    : path_(attendance_path(run_directory, rank)), run_id_(std::move(run_id)) {
  write_attendance(path_, run_id_, std::nullopt);
}

void Attendance::leave(int code) const { write_attendance(path_, run_id_, code); }

std::optional<Attendant> Attendant::find(const std::filesystem::path& run_directory, std::int64_t rank,
                                         const std::string& run_id, const std::string& before) {
  const std::filesystem::path path = attendance_path(run_directory, rank);
  if (::access(path.c_str(), R_OK) != 0) return std::nullopt;
  try {
    const Json said = parse_json(read_file(path), path.string());
    if (said.at("run") != run_id) return std::nullopt;
    const pid_t pid = said.at("pid").get<pid_t>();
    std::string process = said.at("host").get<std::string>() + ":" + std::to_string(pid);
    if (process == before) return std::nullopt;
    return Attendant(path, std::move(process), pid, said.at("host") == name_of_this_host());
  } catch (const std::exception&) {  // written by whom?
    return std::nullopt;
  }
}

Attendant::Attendant(std::filesystem::path path, std::string process, pid_t pid, bool here)
    : path_(std::move(path)),
      process_(std::move(process)),
      pid_(pid),
      here_(here),
      end_(here ? descriptor_of(pid) : Descriptor()) {}

std::optional<Process::Exit> Attendant::poll() const {
  constexpr Process::Exit kUnknown{.signalled = true, .value = 0};
  if (!here_) return word_in(path_);
  if (!end_) {  // gone before it was found, or no such descriptors in this kernel
    if (const auto state = state_of(pid_); state && state->letter != 'Z') return std::nullopt;
    return word_in(path_).value_or(kUnknown);
  }
  pollfd watched{.fd = end_.number(), .events = POLLIN, .revents = 0};
  if (::poll(&watched, 1, 0) <= 0) return std::nullopt;
  // A launcher that ends the others may hit a rank between its word and its end.
  const auto said_or = [this](int status) {
    const Process::Exit end = exit_of(status);
    return end.signalled ? word_in(path_).value_or(end) : end;
  };
  if (const auto status = status_of_reaped(end_)) return said_or(*status);
  const auto state = state_of(pid_);
  if (state && state->letter == 'Z') return said_or(state->exit_status);
  // Its parent reaped it just now, in between.
  if (const auto status = status_of_reaped(end_)) return said_or(*status);
  return word_in(path_).value_or(kUnknown);
}

Process::Halt Attendant::halt() const {
  const auto state = here_ ? state_of(pid_) : std::nullopt;
  if (state && state->letter == 'T') return Process::Halt::kStopped;
  return state && state->letter == 't' ? Process::Halt::kDebugged : Process::Halt::kNone;
}

void Attendant::kill() const {
  if (end_) ::syscall(SYS_pidfd_send_signal, end_.number(), SIGKILL, nullptr, 0);
}

void die_with_process(const std::string& process) {
  const std::size_t colon = process.rfind(':');
  if (colon == std::string::npos || process.substr(0, colon) != name_of_this_host()) return;
  pid_t pid = 0;
  std::from_chars(process.data() + colon + 1, process.data() + process.size(), pid);
  Descriptor end = descriptor_of(pid);
  if (!end && errno == ESRCH) ::kill(::getpid(), SIGKILL);  // it has ended while we began
  if (!end) return;
  std::thread([end = std::move(end)] {
    pollfd watched{.fd = end.number(), .events = POLLIN, .revents = 0};
    while (::poll(&watched, 1, -1) < 0 && errno == EINTR) {
    }
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

std::string name_of_this_process() { return name_of_this_host() + ":" + std::to_string(::getpid()); }

}  // namespace lockstep::launch
