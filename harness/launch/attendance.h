#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include <sys/types.h>

#include "harness/launch/descriptor.h"
#include "harness/launch/process.h"

/// Ranks that another program starts (torchrun, srun, a user's own command) are no children of ours. Each says in a
/// file of the run's folder that it is there, and how it leaves, so that we can supervise it like one of ours.
namespace lockstep::launch {

/// In the rank: writes "rank3.attendance". Failures to write are ignored: then only the launcher's end is seen.
class Attendance {
 public:
  Attendance(const std::filesystem::path& run_directory, std::int64_t rank, std::string run_id);

  /// Called last, with the exit code.
  void leave(int code) const;

 private:
  std::filesystem::path path_;
  std::string run_id_;
};

/// In the supervisor: one rank that has said that it is there.
class Attendant {
 public:
  /// Nothing until rank `rank` of this very run has said so. `before`: the process that was this rank before its
  /// launcher started all ranks again; "" the first time.
  static std::optional<Attendant> find(const std::filesystem::path& run_directory, std::int64_t rank,
                                       const std::string& run_id, const std::string& before = "");

  /// "<host>:<pid>"
  const std::string& process() const { return process_; }

  /// How it ended; nothing while it runs. Signal 0 if it ended in an unknown way. A rank on another host is
  /// known by its own word only.
  std::optional<Process::Exit> poll() const;

  /// Of this host; −1 for another one.
  pid_t pid() const { return here_ ? pid_ : -1; }
  int end_descriptor() const { return end_.number(); }
  Process::Halt halt() const;
  void kill() const;

 private:
  Attendant(std::filesystem::path path, std::string process, pid_t pid, bool here);

  std::filesystem::path path_;
  std::string process_;
  pid_t pid_ = -1;
  bool here_ = false;  ///< on this host
  Descriptor end_;
};

/// Kills this process (SIGKILL) once the process "<host>:<pid>" ends. Returns at once; a thread watches. Does nothing
/// on another host, and for what is no process. *Throws*: std::system_error if no thread can be started.
void die_with_process(const std::string& process);

/// This process as `die_with_process` takes it.
std::string name_of_this_process();

}  // namespace lockstep::launch
