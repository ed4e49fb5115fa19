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

/// Names the run of ranks that outlive us, in the folder of the run.
inline constexpr const char* kRunIdFile = "run.id";

/// Who starts the ranks of a job.
enum class Starter {
  kLauncher,  ///< the launcher: `world_size` processes of one command
  kCommand,   ///< the command itself: one process, as torchrun is; its exit codes mean nothing to us
  kOther,     ///< `starts`, which make the command a rank each: torchrun, srun. Ranks attend (attendance.h)
};

/// One process that starts ranks.
struct StartCommand {
  std::vector<std::string> words;                  ///< program and arguments
  std::map<std::string, std::string> environment;  ///< added to that of the job

  bool operator==(const StartCommand&) const = default;
};

/// One run to start. A launcher need not know what the command computes.
struct Job {
  std::string run;  ///< name, for messages
  std::filesystem::path
      directory;  ///< exists and belongs to this run; gets rank<r>.log (or command<i>.log), rank<r>.progress
  std::vector<std::string> command;  ///< program and arguments, the same for every rank
  Starter starter = Starter::kLauncher;
  std::vector<StartCommand> starts = {};  ///< for kOther; all at once
  bool may_queue = false;                 ///< for kOther: when its ranks begin is unknown
  /// For kOther: a scheduler's, which go on if this process dies. Whoever goes on with the run finds them by the id in
  /// kRunIdFile.
  bool outlives_us = false;
  std::int64_t restarts = 0;  ///< for kOther: how often it starts all ranks again when one has failed
  std::vector<std::filesystem::path> inputs = {};  ///< in `directory`, that a second start needs, too
  /// Ranks of one group may be forked from one process (fork_server.h), with their libraries at the same addresses.
  /// Nothing: they are executed.
  std::optional<std::int64_t> fork_group;
  bool alone = false;  ///< not beside another one of these
  std::int64_t world_size = 1;
  std::vector<std::int64_t> arrival_delay_ms;      ///< by rank; missing entries are 0
  std::vector<std::int64_t> step_delay_ms = {};    ///< by rank; pause before each backward pass
  std::map<std::string, std::string> environment;  ///< added to ours
  std::map<std::int64_t, std::map<std::string, std::string>> rank_environment;  ///< overrides `environment`, by rank
  bool reverse_environment = false;               ///< pass variables in descending order of names
  std::filesystem::path work_directory = "work";  ///< created inside `directory`; the ranks' current directory
  std::map<std::filesystem::path, std::filesystem::path> copies = {};  ///< folders that it begins with, by their origin
  std::optional<double> deadline_s;  ///< nothing: no limit while the run makes progress
  double stall_s = 60;
  std::vector<const char*> interface_variables = {};  ///< that its ranks read (interfaces.h); checked before the start
  std::uintmax_t rank_memory = 0;  ///< least memory of a rank, in bytes; a run that cannot fit is not started
  std::vector<std::size_t> after;  ///< indices of jobs that must succeed before this one starts
};

/// How one rank ended.
struct RankExit {
  enum class How { kExited, kSignalled, kEnded };  ///< kEnded: by us, after another rank failed or time ran out
  How how = How::kExited;
  int code = 0;        ///< exit code, for kExited
  int signal = 0;      ///< for kSignalled
  double after_s = 0;  ///< seconds since the run's start
  Progress progress;
  std::optional<WorkerFailure> failure;  ///< as the rank reported it
  std::filesystem::path log;
};

/// Result of one run. Failures are values here, not exceptions.
struct RunOutcome {
  enum class Status {
    kFinished,     ///< every rank exited with 0; ranks that report steps did so after the last one
    kFailed,       ///< a rank died, exited with another code, or exited before its last step
    kHung,         ///< ended by us: deadline, stall or stopped rank
    kRefused,      ///< WorkerExit::kRefused before the first step: RunSpec or environment are wrong
    kResource,     ///< WorkerExit::kResource, or no process could be started: damaged file, no memory or disk
    kUnsupported,  ///< WorkerExit::kUnsupported, before the first step
    kSkipped,      ///< a job listed in `after` did not succeed
    kInterrupted,  ///< SIGINT or SIGTERM
    kUnknown,      ///< not started here, and nothing of its own shows how it ended
  };
  std::string run;
  Status status = Status::kFinished;
  std::vector<RankExit> ranks;
  std::optional<std::int64_t> culprit;     ///< the rank that failed first; nothing if unknown
  std::string why;                         ///< one sentence: rank, signal or code, step, phase
  std::vector<std::string> restarts = {};  ///< why the ranks were started again, one sentence for each time
  std::optional<WorkerFailure> command_failure = std::nullopt;  ///< of a command that starts its ranks itself
  std::string log_tail;  ///< last lines of the culprit's log, or of rank 0's if there is no culprit
  double wall_s = 0;
};

/// "finished", "failed", "hung", …
std::string_view name_of(RunOutcome::Status status);
std::string_view name_of(RankExit::How how);

}  // namespace lockstep::launch
