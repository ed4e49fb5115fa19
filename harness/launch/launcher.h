#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "harness/launch/job.h"

namespace lockstep::launch {

/// A job that has ended. `job`: its number in `start`.
struct Ended {
  std::size_t job = 0;
  RunOutcome outcome;
};

/// A running job and the progress of its slowest rank.
struct Standing {
  std::size_t job = 0;
  Progress progress;
};

/// Starts jobs, supervises their ranks and reports their outcomes. launch_all decides which job runs when; each
/// subclass decides where and how.
///
/// Used by one thread. The destructor ends all running jobs.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// Called for every job before the first one starts. *Throws*: InputError if the job can never run here.
  virtual void require(const Job& job) const = 0;

  /// Whether a job may start beside the running ones. Always true if none runs.
  virtual bool has_room_for(const Job& job) const = 0;

  /// Starts a job; a failed start gives an outcome, too. *Lifetime*: `job` must live until it has ended.
  /// *Throws*: InputError if its command cannot be executed.
  virtual void start(std::size_t number, const Job& job) = 0;

  /// Waits for a change, for a few hundredths of a second at most, and returns the jobs that have ended.
  virtual std::vector<Ended> wait() = 0;

  /// Running jobs, in the order of their start.
  virtual std::vector<Standing> standing() const = 0;

  /// Ends every running job because we received `signal`. `wait` returns their outcomes. Called again if another signal
  /// comes: then no cleanup may be waited for.
  virtual void interrupt(int signal) = 0;
};

/// Follows running jobs. Called while ranks are supervised, so it must return quickly.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void running(const std::vector<Standing>&) {}
  virtual void ended(std::size_t /*job*/, const RunOutcome&) {}
};

/// Runs all jobs and waits for them. Jobs start in order, each once those in `after` have succeeded and the launcher
/// has room. On SIGINT or SIGTERM, all jobs are ended; outcomes so far are kept, the rest are kInterrupted.
///
/// `known`: outcomes of jobs that ended before this call, by job; they are not started. Empty: there are none.
/// *Throws*: InputError if a job can never run; normally before anything has started.
std::vector<RunOutcome> launch_all(const std::vector<Job>& jobs, Launcher& launcher, Observer& observer,
                                   std::vector<std::optional<RunOutcome>> known = {});

}  // namespace lockstep::launch
