#include <algorithm>
#include <array>
#include <chrono>
#include <list>
#include <optional>
#include <utility>
#include <vector>

#include <poll.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/launch/interruption.h"
#include "harness/launch/launcher.h"
#include "harness/launch/lifeline.h"
#include "harness/launch/local_run.h"
#include "harness/launch/processes.h"

namespace lockstep::launch {
namespace {

using Status = RunOutcome::Status;

/// How soon everything is noticed that no descriptor announces: progress, silence, a delayed rank that is due.
constexpr int kTick_ms = 20;

void check_command(const Job& job) {
  LOCKSTEP_CHECK(job.world_size >= 1);
  const std::filesystem::path program = job.command.empty() ? "" : job.command.front();
  std::error_code missing;
  if (std::filesystem::is_regular_file(program, missing) && ::access(program.c_str(), X_OK) == 0) return;
  throw InputError({.what = "the command of run '" + job.run + "' cannot be executed",
                    .where = job.command.empty() ? "(no command)" : program.string(),
                    .expected = "the path of an executable file",
                    .next = "build or install the program, or correct its path"});
}

/// Starts jobs as room and order allow, and looks after the runs until every job has an outcome.
class Supervisor {
 public:
  Supervisor(const std::vector<Job>& jobs, int max_processes)
      : jobs_(jobs), max_processes_(max_processes), outcomes_(jobs.size()), started_(jobs.size()) {}

  std::vector<RunOutcome> run() {
    while (true) {
      if (const std::optional<int> signal = interruption_.seen()) interrupt(*signal);
      settle_and_start();
      if (runs_.empty()) break;
      wait();
      look();
    }
    std::vector<RunOutcome> all;
    for (std::optional<RunOutcome>& outcome : outcomes_) {
      LOCKSTEP_CHECK(outcome.has_value());  // else jobs come after one another in a circle
      all.push_back(std::move(*outcome));
    }
    return all;
  }

 private:
  struct Active {
    std::size_t job;
    LocalRun run;
  };

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

  /// Skips what can never start and starts what can. A job that is ready but has no room holds back those behind it, so
  /// that a large one cannot starve.
  void settle_and_start() {
    while (skip_hopeless()) {
    }
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (started_[i] || outcomes_[i] || readiness(jobs_[i]) != Readiness::kReady) continue;
      if (!runs_.empty() && processes_in_use() + jobs_[i].world_size > max_processes_) break;
      start(i);
    }
  }

  bool skip_hopeless() {
    bool any = false;
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (started_[i] || outcomes_[i] || readiness(jobs_[i]) != Readiness::kNever) continue;
      outcomes_[i] = RunOutcome{.run = jobs_[i].run, .status = Status::kSkipped, .why = why_skipped(jobs_[i])};
      any = true;
    }
    return any;
  }

  std::string why_skipped(const Job& job) const {
    for (const std::size_t earlier : job.after) {
      const std::optional<RunOutcome>& outcome = outcomes_[earlier];
      if (!outcome || outcome->status == Status::kFinished) continue;
      return "not started, because run '" + outcome->run + "', which it comes after, ended as " +
             std::string(name_of(outcome->status));
    }
    return "";
  }

  std::int64_t processes_in_use() const {
    std::int64_t sum = 0;
    for (const Active& active : runs_) sum += jobs_[active.job].world_size;
    return sum;
  }

  void start(std::size_t job) {
    started_[job] = true;
    const auto now = std::chrono::steady_clock::now();
    runs_.push_back({.job = job, .run = LocalRun(jobs_[job], orphans_, lifeline_, now)});
    runs_.back().run.look(now);
  }

  void look() {
    for (Active& active : runs_) active.run.look(std::chrono::steady_clock::now());
    runs_.remove_if([this](const Active& active) {
      if (active.run.over()) outcomes_[active.job] = active.run.outcome();
      return active.run.over();
    });
  }

  void interrupt(int signal) {
    for (Active& active : runs_) active.run.interrupt(signal, std::chrono::steady_clock::now());
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      if (started_[i] || outcomes_[i]) continue;
      outcomes_[i] =
          RunOutcome{.run = jobs_[i].run, .status = Status::kInterrupted, .why = "interrupted before its start"};
    }
  }

  void wait() {
    std::vector<pollfd> descriptors;
    // A signal that was seen already would wake us again and again.
    if (!interruption_.seen()) descriptors.push_back({.fd = interruption_.descriptor(), .events = POLLIN});
    for (const Active& active : runs_) active.run.watch(descriptors);
    ::poll(descriptors.data(), descriptors.size(), kTick_ms);
  }

  const std::vector<Job>& jobs_;
  std::int64_t max_processes_;
  std::vector<std::optional<RunOutcome>> outcomes_;
  std::vector<bool> started_;
  OrphanKeeper orphans_;
  Lifeline lifeline_;
  Interruption interruption_;
  std::list<Active> runs_;
};

}  // namespace

std::vector<RunOutcome> run_locally(const std::vector<Job>& jobs, int max_processes) {
  for (const Job& job : jobs) {
    check_command(job);
    for (const std::size_t earlier : job.after) LOCKSTEP_CHECK(earlier < jobs.size());
  }
  return Supervisor(jobs, max_processes).run();
}

std::string_view name_of(RunOutcome::Status status) {
  constexpr std::array<std::string_view, 8> kNames = {"finished", "failed",      "hung",    "refused",
                                                      "resource", "unsupported", "skipped", "interrupted"};
  return kNames.at(static_cast<std::size_t>(status));
}

}  // namespace lockstep::launch
