#pragma once

#include <cstddef>
#include <vector>

#include "harness/launch/job.h"

namespace lockstep::launch {

/// A job that has ended. `job` is the number that it was started under.
struct Ended {
  std::size_t job = 0;
  RunOutcome outcome;
};

/// A job that runs, and the progress of its rank that has come least far.
struct Standing {
  std::size_t job = 0;
  Progress progress;
};

/// Starts jobs somewhere, looks after their ranks, and says what became of them: the seam between what is to run
/// (launch_all) and where and how (one class for each way).
///
/// One thread uses it. Its destructor ends what still runs.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// Called for every job before the first starts. *Throws*: InputError for one that can never run here.
  virtual void require(const Job& job) const = 0;

  /// Whether a job may start beside those that run. Always, where none does.
  virtual bool has_room_for(const Job& job) const = 0;

  /// Starts a job; a start that fails is an outcome as well. *Lifetime*: `job` lives until it has ended.
  /// *Throws*: InputError when its command cannot be executed.
  virtual void start(std::size_t number, const Job& job) = 0;

  /// Waits for a change, but no more than some hundredths of a second, and takes out the jobs that have ended.
  virtual std::vector<Ended> wait() = 0;

  /// The jobs that run, in the order of their start.
  virtual std::vector<Standing> standing() const = 0;

  /// Ends every job that runs, because `signal` told us to. Their outcomes come out of `wait`.
  virtual void interrupt(int signal) = 0;
};

/// Watches jobs run. Called between two looks at the ranks: it must be quick.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void running(const std::vector<Standing>&) {}
  virtual void ended(std::size_t /*job*/, const RunOutcome&) {}
};

/// Runs all jobs and waits for them. Jobs start in order, each as soon as those in `after` have finished well and the
/// launcher has room. On SIGINT or SIGTERM everything is ended, and the outcomes so far come back, the rest as
/// kInterrupted.
/// *Throws*: InputError when a job can never run; as a rule before anything has started.
std::vector<RunOutcome> launch_all(const std::vector<Job>& jobs, Launcher& launcher, Observer& observer);

}  // namespace lockstep::launch
