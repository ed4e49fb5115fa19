#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <signal.h>
#include <sys/types.h>

/// What /proc tells about processes, and the care for those that ranks leave behind.
namespace lockstep::launch {

/// One line of /proc/<pid>/stat.
struct ProcessState {
  char letter = '?';  ///< 'R' runs, 'S' sleeps, 'T' stopped, 't' held by a debugger, 'Z' dead but not reaped, …
  pid_t parent = 0;
  pid_t session = 0;
};

/// Nothing when there is no such process.
std::optional<ProcessState> state_of(pid_t pid);

/// Reaps a child that has ended or is about to. Gives up after two seconds: a process inside a broken driver cannot be
/// killed, and must not hang the gate.
void wait_and_reap(pid_t pid);

/// While it lives, processes whose parent dies become children of this process instead of init's, so that they can be
/// found and ended.
///
/// Children that this process had before, and those in its own session, are never touched. SIGCHLD has its default
/// action meanwhile: were it ignored, as some callers leave it, the system would forget how the ranks ended.
class OrphanKeeper {
 public:
  OrphanKeeper();
  ~OrphanKeeper();
  OrphanKeeper(const OrphanKeeper&) = delete;
  OrphanKeeper& operator=(const OrphanKeeper&) = delete;

  /// Ends every adopted process whose environment has `entry` ("NAME=value"), and its descendants. Waits for their
  /// ends.
  void end_orphans(const std::string& entry) const;

 private:
  /// Processes that ranks left behind.
  std::vector<pid_t> adopted() const;

  int was_subreaper_ = 0;
  struct sigaction child_action_before_;
  std::set<pid_t> children_before_;
};

}  // namespace lockstep::launch
