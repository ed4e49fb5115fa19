#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "harness/base/error.h"
#include "harness/launch/interruption.h"
#include "harness/launch/launcher.h"

namespace lockstep::launch {
namespace {

using Status = RunOutcome::Status;

/// Hands jobs to a launcher as room and order allow, until every one has an outcome.
class Schedule {
 public:
  Schedule(const std::vector<Job>& jobs, Launcher& launcher, Observer& observer,
           std::vector<std::optional<RunOutcome>> known)
      : jobs_(jobs), launcher_(launcher), observer_(observer), outcomes_(std::move(known)), started_(jobs.size()) {}

  std::vector<RunOutcome> run() {
    while (true) {
      while (const std::optional<int> signal = interruption_.take()) interrupt(*signal);
      settle_and_start();
      if (running_ == 0) break;
      for (Ended& ended : launcher_.wait()) {
        --running_;
        settle(ended.job, std::move(ended.outcome));
      }
      observer_.running(launcher_.standing());
    }
    std::vector<RunOutcome> all;
    for (std::optional<RunOutcome>& outcome : outcomes_) {
      LOCKSTEP_CHECK(outcome.has_value());  // else jobs come after one another in a circle
      all.push_back(std::move(*outcome));
    }
    return all;
  }

 private:
  enum class Readiness { kReady, kNotYet, kNever };

  Readiness readiness(const Job& job) const {
    Readiness worst = Readiness::kReady;
    for (const std::size_t earlier : job.after) {
      const std::optional<RunOutcome>& outcome = outcomes_.at(earlier);
      if (!outcome) {
        worst = std::max(worst, Readiness::kNotYet);
      } else if (outcome->status != Status::kFinished) {
        worst = Readiness::kNever;
      }
    }
    return worst;
  }

  bool is_open(std::size_t job) const { return !started_[job] && !outcomes_[job]; }

  /// Skips what can never start and starts what can. A job that is ready but has no room holds back those behind it, so
  /// that a large one cannot starve.
  void settle_and_start() {
    while (skip_hopeless()) {
    }
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!is_open(i) || readiness(jobs_[i]) != Readiness::kReady) continue;
      if (!launcher_.has_room_for(jobs_[i])) break;
      started_[i] = true;
      ++running_;
      launcher_.start(i, jobs_[i]);
    }
  }

  bool skip_hopeless() {
    bool any = false;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (!is_open(i) || readiness(jobs_[i]) != Readiness::kNever) continue;
      settle(i, {.run = jobs_[i].run, .status = Status::kSkipped, .why = why_skipped(jobs_[i])});
      any = true;
    }
    return any;
  }

  std::string why_skipped(const Job& job) const {
    for (const std::size_t earlier : job.after) {
      const std::optional<RunOutcome>& outcome = outcomes_[earlier];
      if (!outcome || outcome->status == Status::kFinished) continue;
      return "not started: the earlier run '" + outcome->run + "' ended as " + std::string(name_of(outcome->status));
    }
    return "";
  }

  void interrupt(int signal) {
    launcher_.interrupt(signal);
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (is_open(i))
        settle(i, {.run = jobs_[i].run, .status = Status::kInterrupted, .why = "interrupted before its start"});
    }
  }

  void settle(std::size_t job, RunOutcome outcome) {
    outcomes_[job] = std::move(outcome);
    observer_.ended(job, *outcomes_[job]);
  }

  const std::vector<Job>& jobs_;
  Launcher& launcher_;
  Observer& observer_;
  std::vector<std::optional<RunOutcome>> outcomes_;
  std::vector<bool> started_;
  std::size_t running_ = 0;
  Interruption interruption_;
};

}  // namespace

std::vector<RunOutcome> launch_all(const std::vector<Job>& jobs, Launcher& launcher, Observer& observer,
                                   std::vector<std::optional<RunOutcome>> known) {
  LOCKSTEP_CHECK(known.empty() || known.size() == jobs.size());
  known.resize(jobs.size());
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (!known[i]) launcher.require(jobs[i]);
    for (const std::size_t earlier : jobs[i].after) LOCKSTEP_CHECK(earlier < jobs.size());
  }
  return Schedule(jobs, launcher, observer, std::move(known)).run();
}

std::string_view name_of(RankExit::How how) {
  switch (how) {
    case RankExit::How::kExited:
      return "exited";
    case RankExit::How::kSignalled:
      return "signalled";
    case RankExit::How::kEnded:
      return "ended";
  }
  return "";
}

std::string_view name_of(RunOutcome::Status status) {
  constexpr std::array<std::string_view, 9> kNames = {"finished",    "failed",  "hung",        "refused", "resource",
                                                      "unsupported", "skipped", "interrupted", "unknown"};
  return kNames.at(static_cast<std::size_t>(status));
}

}  // namespace lockstep::launch
