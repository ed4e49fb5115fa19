#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/job.h"
#include "harness/launch/progress.h"

/// Who is to blame: pure functions from what was seen of the ranks to a judgement.
namespace lockstep::launch {

/// What the supervisor saw of one rank.
struct Sighting {
  enum class State {
    kWaiting,    ///< its arrival is delayed: not started yet
    kRunning,    ///< also when we ended it: that is no deed of its own
    kStopped,    ///< by a signal, SIGSTOP for instance
    kExited,     ///< left by itself, with `value` as exit code
    kSignalled,  ///< died by signal `value`, which was not ours
  };
  State state = State::kRunning;
  int value = 0;
  std::int64_t round = 0;  ///< poll round in which its end was seen: ends of one round have no order
  Progress progress;
  std::string not_loaded = {};  ///< why its program never began: the dynamic linker's words, for kExited

  bool operator==(const Sighting&) const = default;
};

/// Whether the rank itself makes the run a failure: died, left with another code than 0, or left with 0 before
/// Phase::kDone although it had begun to train.
bool failed(const Sighting& rank);

/// Whether a rank was done before a step that the other began: they did not have as many.
bool done_before(const Progress& rank, const Progress& other);

/// The part of a RunOutcome that says what happened.
struct Judgement {
  RunOutcome::Status status = RunOutcome::Status::kFinished;
  std::optional<std::int64_t> culprit;
  std::string why;

  bool operator==(const Judgement&) const = default;
};

/// Judges a run of which at least one rank failed.
///
/// A death by signal goes before an exit code (an abort is one), and that before kPeerLost and SIGPIPE, which are what
/// the victims of another rank end by; the only rank that was done early goes before these. Among equals the first in
/// time is to blame; within one poll round, the one that had come least far.
Judgement judge_failure(const std::vector<Sighting>& ranks);

/// The clock that ran out. The options are `stall_s` and `deadline_s` of a scenario's "launch".
struct Expiry {
  enum class Clock {
    kStall,
    kDeadline,
    kStop,  ///< a rank was stopped by a signal for `seconds`: no option, since nothing is to be waited for
  };
  Clock clock = Clock::kStall;
  double seconds = 0;
};

/// Judges a run that did not end. To blame is the only rank that was done early or stopped, else the only one that had
/// come least far of those that still ran: in a collective, all others wait for it. Names the option whose limit ended
/// the run.
Judgement judge_hang(const std::vector<Sighting>& ranks, Expiry expiry);

/// The line of a log in which the dynamic linker says why a program could not be loaded; "" where it says nothing.
std::string linker_error_in(const std::string& log);

/// "at step 3 in forward", "after step 3", "before its first step" (or "their" for several `ranks`).
std::string place_of(const Progress& progress, std::size_t ranks = 1);

}  // namespace lockstep::launch
