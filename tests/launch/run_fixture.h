#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "harness/launch/launcher.h"

namespace lockstep::launch {

/// A directory of its own for one test, removed at its end.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// A job named `run` whose ranks do what `script` says (fake_rank.cpp), in a new directory.
  Job job(const std::string& run, std::int64_t world_size, std::vector<std::string> script) const;

  /// Content of a file of run `run`.
  std::string text(const std::string& run, const std::string& file) const;

  /// The process id that a fake rank wrote into a file of its run. Waits for the file.
  pid_t pid(const std::string& run, const std::string& file) const;

 private:
  std::filesystem::path path_;
};

/// Variables as a launcher set them, in files that say how.
std::filesystem::path recorded_environments();

/// Runs all jobs on this machine.
std::vector<RunOutcome> run_locally(const std::vector<Job>& jobs, int max_processes);

/// Runs one job with plenty of room.
RunOutcome run_one(const Job& job);

/// Whether `pid` is a process that still runs, that is, no zombie.
bool alive(pid_t pid);

/// Seconds until the last rank ended by itself: what follows is the launcher's own time.
double last_end_s(const RunOutcome& outcome);

/// Whether `pid` is gone before it could have run for `limit`.
bool gone_within(pid_t pid, std::chrono::milliseconds limit);

/// Processes and their dead that belong to this process.
int number_of_children();

/// Open descriptors of this process.
int number_of_descriptors();

/// Forks a process that runs `body` and leaves with what it returns.
template <typename Body>
pid_t fork_supervisor(Body body);

/// The exit code of a child, or −signal. Waits.
int wait_for(pid_t pid);

}  // namespace lockstep::launch

#include <unistd.h>

template <typename Body>
pid_t lockstep::launch::fork_supervisor(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  return pid;
}
