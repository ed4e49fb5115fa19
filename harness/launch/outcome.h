#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/job.h"
#include "harness/launch/progress.h"

/// Pure functions that judge a failed run and find the rank to blame.
namespace lockstep::launch {

/// State of one rank as the supervisor sees it.
struct Sighting {
  enum class State {
    kWaiting,    ///< not started yet: its arrival is delayed
    kRunning,    ///< running, or ended by us
    kStopped,    ///< stopped by a signal such as SIGSTOP
    kExited,     ///< exited by itself with exit code `value`
    kSignalled,  ///< killed by signal `value` that we did not send; 0: ended in an unknown way
  };
  State state = State::kRunning;
  int value = 0;
  std::int64_t round = 0;  ///< round in which its end was seen; ends in one round have no order
  Progress progress;
  bool by_command = false;         ///< its command started it: how it ended is how the command ended
  bool is_program = false;         ///< a user's: its exit codes mean nothing to us
  bool under_launcher = false;     ///< a launcher started it, which ends all ranks when one has failed
  bool ended_by_launcher = false;  ///< for judge_failure itself
  std::string not_loaded = {};     ///< the dynamic linker's message, if the program never began; for kExited

  bool operator==(const Sighting&) const = default;
};

/// Whether the rank itself failed: it was killed, exited with a code other than 0, or exited with 0 in the middle of
/// its training.
bool failed(const Sighting& rank);

/// Whether a rank finished before a step that the other began: it had fewer steps.
bool done_before(const Progress& rank, const Progress& other);

/// Status, culprit and reason of a RunOutcome.
struct Judgement {
  RunOutcome::Status status = RunOutcome::Status::kFinished;
  std::optional<std::int64_t> culprit;
  std::string why;

  bool operator==(const Judgement&) const = default;
};

/// Judges a run with at least one failed rank.
///
/// The first of these kinds is to blame:
/// 1. killed by a signal other than SIGABRT and SIGPIPE;
/// 2. aborted, or exited with an error code other than kPeerLost;
/// 3. exited with 0 in the middle of its training;
/// 4. the only rank that finished early;
/// 5. exited with kPeerLost or killed by SIGPIPE, as other ranks' failures cause.
///
/// Among equals it is the earliest; within one round, the slowest. Signals by which a launcher ends the others count as
/// kPeerLost: SIGTERM, any signal in a later round than the first failure, and SIGKILL beside another failure.
Judgement judge_failure(const std::vector<Sighting>& ranks);

/// The limit that ended a run. The options are `stall_s` and `deadline_s` in a scenario's "launch".
struct Expiry {
  enum class Clock {
    kStall,
    kDeadline,
    kStop,  ///< a rank was stopped by a signal for `seconds`; there is no option for it
  };
  Clock clock = Clock::kStall;
  double seconds = 0;
};

/// Judges a run that did not end, and names the option whose limit ended it. The rank to blame is the only one that
/// finished early or was stopped. Otherwise it is the slowest running rank, if there is only one: all others wait for
/// it in a collective.
Judgement judge_hang(const std::vector<Sighting>& ranks, Expiry expiry);

/// The line of a log in which the dynamic linker says why it could not load a program; "" if there is none.
std::string linker_error_in(const std::string& log);

/// "SIGKILL", or "signal 35".
std::string name_of_signal(int signal);

/// "at step 3 in forward", "after step 3", "before its first step" (or "their" for several `ranks`).
std::string place_of(const Progress& progress, std::size_t ranks = 1);

}  // namespace lockstep::launch
