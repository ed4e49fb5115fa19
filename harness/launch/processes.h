#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/types.h>

/// State of processes from /proc, and the cleanup of processes that ranks leave behind.
namespace lockstep::launch {

/// State in /proc/<pid>/stat.
struct ProcessState {
  char letter = '?';  ///< 'R' runs, 'S' sleeps, 'T' stopped, 't' held by a debugger, 'Z' dead but not reaped, …
  pid_t parent = 0;
  pid_t session = 0;
  std::uint64_t page_faults = 0;     ///< of its threads, with and without reading from a disk
  std::uint64_t ended_children = 0;  ///< processor time of children that it has waited for. *Units*: clock ticks
  int exit_status = 0;               ///< as wait() gives it, of one that is dead but not reaped
};

/// The entries of a folder of /proc whose names are numbers: processes or threads. Empty if it does not exist.
std::vector<pid_t> numbered_entries(const std::string& folder);

/// State of a process; nothing if it does not exist.
std::optional<ProcessState> state_of(pid_t pid);

/// Reaps a child that has ended or is about to. Gives up after two seconds: a process stuck in a broken driver cannot
/// be killed and must not hang lockstep.
void wait_and_reap(pid_t pid);

/// Ends every process of this machine whose environment has `entry` ("NAME=value"), whoever started it, apart from
/// this one. Waits for a limited time until they have ended.
void end_all_marked(const std::string& entry);

/// While it lives, descendants whose parent dies become children of this process (a subreaper), so it can find and end
/// them.
///
/// It never touches earlier children of this process, nor those in its own session. SIGCHLD has its default action
/// meanwhile: if a caller had it ignored, the system would discard exit codes.
class OrphanKeeper {
 public:
  OrphanKeeper();
  ~OrphanKeeper();
  OrphanKeeper(const OrphanKeeper&) = delete;
  OrphanKeeper& operator=(const OrphanKeeper&) = delete;

  /// Ends every adopted process whose environment has `entry` ("NAME=value"), and its descendants. Waits until they
  /// have ended.
  void end_orphans(const std::string& entry) const;

 private:
  /// Processes that ranks left behind.
  std::vector<pid_t> adopted() const;

  int was_subreaper_ = 0;
  struct sigaction child_action_before_;
  std::set<pid_t> children_before_;
};

}  // namespace lockstep::launch
