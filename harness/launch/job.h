#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/launch/progress.h"
#include "harness/launch/worker_failure.h"

namespace lockstep::launch {

/// One run to start: `world_size` processes of one command. A launcher knows no more of it: what the command computes
/// is its own affair.
struct Job {
  std::string run;                   ///< name, for messages
  std::filesystem::path directory;   ///< the run's own; exists; gets rank<r>.log and rank<r>.progress
  std::vector<std::string> command;  ///< program and arguments, the same for every rank
  std::int64_t world_size = 1;
  std::vector<std::int64_t> arrival_delay_ms;                                   ///< by rank; missing entries are 0
  std::vector<std::int64_t> step_delay_ms = {};                                 ///< the same, for each backward pass
  std::map<std::string, std::string> environment;                               ///< added to ours
  std::map<std::int64_t, std::map<std::string, std::string>> rank_environment;  ///< over the former, by rank
  bool reverse_environment = false;     ///< hand the block over in descending order of names
  std::string work_directory = "work";  ///< created inside `directory`; the ranks' current directory
  std::optional<double> deadline_s;     ///< nothing: as long as it makes progress
  double stall_s = 60;
  std::uintmax_t rank_memory = 0;  ///< that a rank takes at least; a run that cannot fit is not begun. *Units*: bytes.
  std::vector<std::size_t> after;  ///< indices of jobs that must have finished well before this one starts
};

/// How one rank ended.
struct RankExit {
  enum class How { kExited, kSignalled, kEnded };  ///< kEnded: by us, because another rank or the clock had failed
  How how = How::kExited;
  int code = 0;        ///< exit code, for kExited
  int signal = 0;      ///< for kSignalled
  double after_s = 0;  ///< seconds since the run's start
  Progress progress;
  std::optional<WorkerFailure> failure;  ///< in its own words
  std::filesystem::path log;
};

/// What became of one run. A value: nothing here is an exception.
struct RunOutcome {
  enum class Status {
    kFinished,     ///< every rank left with 0, and those that reported steps did so after the last
    kFailed,       ///< a rank died, left with another code, or left in the middle of its training
    kHung,         ///< ended by us: deadline or stall
    kRefused,      ///< a rank said before its first step that RunSpec or environment are wrong (WorkerExit::kRefused)
    kResource,     ///< a file is damaged, or the machine gave out (WorkerExit::kResource, no process could be started)
    kUnsupported,  ///< WorkerExit::kUnsupported, before the first step
    kSkipped,      ///< a job that it comes after did not finish
    kInterrupted,  ///< the user stopped us
  };
  std::string run;
  Status status = Status::kFinished;
  std::vector<RankExit> ranks;
  std::optional<std::int64_t> culprit;  ///< the rank that failed first; nothing when that cannot be told
  std::string why;                      ///< one sentence: rank, signal or code, step, phase
  std::string log_tail;                 ///< last lines of the culprit's (else of rank 0's) log
  double wall_s = 0;
};

/// "finished", "failed", "hung", …
std::string_view name_of(RunOutcome::Status status);

}  // namespace lockstep::launch
