#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "harness/launch/descriptor.h"

namespace lockstep::launch {

/// One spawned process, the leader of a session and process group of its own.
///
/// It dies (SIGKILL) when the thread that started it does. Until `reap` its number stays taken, even after its death,
/// so signals to it and to its group can never reach a stranger.
class Process {
 public:
  struct Command {
    std::filesystem::path program;         ///< executed as it stands, never looked up in PATH
    std::vector<std::string> arguments;    ///< the first is the name that the program sees
    std::vector<std::string> environment;  ///< "NAME=value", handed over in this order
    std::filesystem::path directory;       ///< its current directory
    std::filesystem::path log;             ///< replaced; gets what it writes to stdout and stderr
    std::vector<int> inherited;            ///< descriptors that stay open in it; every other one above 2 is closed
  };

  /// How it ended.
  struct Exit {
    bool signalled = false;
    int value = 0;  ///< signal when `signalled`, else exit code
  };

  /// Returns when the program runs.
  /// *Throws*: InputError when it cannot be executed, ResourceError when the machine has no process, memory or disk
  /// left.
  explicit Process(const Command& command);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  /// Ends the group and waits, for a bounded time.
  ~Process();

  pid_t pid() const { return pid_; }

  /// Becomes readable at its end; −1 where the kernel has no such descriptors.
  int end_descriptor() const { return end_.number(); }

  /// Its end, if that has come. Does not reap.
  std::optional<Exit> poll() const;

  /// Whether it stands still because somebody wanted that.
  enum class Halt {
    kNone,
    kStopped,   ///< by a signal (SIGSTOP, SIGTSTP, …)
    kDebugged,  ///< by a debugger that is attached to it
  };
  Halt halt() const;

  /// SIGKILL to it and to everything in its group.
  void kill_group() const;

  /// Ends what is left of the group and frees the process's number. The process should have ended.
  void reap();

 private:
  pid_t pid_ = -1;
  Descriptor end_;
};

}  // namespace lockstep::launch
