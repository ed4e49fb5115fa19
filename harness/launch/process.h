#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "harness/launch/descriptor.h"

namespace lockstep::launch {

/// One child process. It leads its own session and process group.
///
/// It dies (SIGKILL) with the thread that started it. Its pid stays taken until `reap`, so signals to it or its group
/// never reach another process.
class Process {
 public:
  struct Command {
    std::filesystem::path program;         ///< path to execute, never looked up in PATH
    std::vector<std::string> arguments;    ///< the first is argv[0]
    std::vector<std::string> environment;  ///< "NAME=value", passed in this order
    std::filesystem::path directory;       ///< its current directory
    std::filesystem::path log;             ///< gets stdout and stderr; replaces an older file
    std::vector<int> inherited;            ///< descriptors that stay open; all others above 2 are closed
  };

  /// How it ended.
  struct Exit {
    bool signalled = false;
    int value = 0;  ///< signal when `signalled`, else exit code
  };

  /// Returns once the program runs.
  /// *Throws*: InputError if it cannot be executed; ResourceError if the machine has no process, memory or disk left.
  explicit Process(const Command& command);

  /// Takes over a child that runs already, as the leader of its own session.
  explicit Process(pid_t child);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;

  /// Kills the group and waits for a limited time.
  ~Process();

  pid_t pid() const { return pid_; }

  /// Becomes readable when the process ends; −1 if the kernel lacks such descriptors (pidfd).
  int end_descriptor() const { return end_.number(); }

  /// How it ended; nothing while it runs. Does not reap.
  std::optional<Exit> poll() const;

  /// Whether it is stopped on purpose.
  enum class Halt {
    kNone,
    kStopped,   ///< by a signal (SIGSTOP, SIGTSTP, …)
    kDebugged,  ///< by a debugger that is attached to it
  };
  Halt halt() const;

  /// Sends SIGKILL to its group.
  void kill_group() const;

  /// Kills the rest of the group and frees the pid. The process should have ended.
  void reap();

 private:
  pid_t pid_ = -1;
  Descriptor end_;
};

/// The log of a command, emptied. *Throws*: ResourceError.
Descriptor open_log(const Process::Command& command);

}  // namespace lockstep::launch
