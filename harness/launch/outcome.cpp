#include "harness/launch/outcome.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <limits>
#include <string_view>
#include <tuple>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/launch/worker_exit.h"

namespace lockstep::launch {
namespace {

using State = Sighting::State;
using Status = RunOutcome::Status;

/// Where a rank stands, as far as a reader cares.
std::pair<std::int64_t, Phase> place(const Sighting& rank) {
  constexpr std::int64_t kNotEvenStarted = -2;
  return {rank.state == State::kWaiting ? kNotEvenStarted : rank.progress.step, rank.progress.phase};
}

/// How far a rank had come; one that never arrived is behind all others. Within a phase, who waits in a collective has
/// issued it, and who never got there has not.
std::tuple<std::pair<std::int64_t, Phase>, std::uint64_t> position(const Sighting& rank) {
  return {place(rank), rank.progress.collectives};
}

bool unfinished(const Sighting& rank) {
  return rank.state == State::kWaiting || rank.state == State::kRunning || rank.state == State::kStopped;
}

/// Left in the middle of the training as if it were done: its peers fail, and their exit codes say only that.
bool left_early(const Sighting& rank) {
  return rank.state == State::kExited && rank.value == 0 && rank.progress.step >= 0 &&
         rank.progress.phase != Phase::kDone;
}

/// Class of those who fail because another did.
constexpr int kVictim = 3;

/// An exit code as the worker's own word. A worker refuses before it trains: later, only a program that knows nothing
/// of our codes leaves with these, in the middle of its training.
WorkerExit word_of(const Sighting& rank) {
  const auto code = static_cast<WorkerExit>(rank.value);
  if (rank.by_command || rank.is_program) return rank.value == 0 ? WorkerExit::kDone : WorkerExit::kFailed;
  const bool refusal = code == WorkerExit::kRefused || code == WorkerExit::kUnsupported;
  return refusal && rank.progress.step >= 0 ? WorkerExit::kFailed : code;
}

/// Lower is more to blame.
int blame_class(const Sighting& rank) {
  if (rank.ended_by_launcher) return kVictim;
  if (rank.state == State::kSignalled && rank.value == SIGPIPE) return kVictim;  // wrote to one that was gone
  if (rank.state == State::kSignalled && rank.value != SIGABRT) return 0;        // an abort is the program's own exit
  if (left_early(rank)) return rank.is_program ? 1 : 2;  // its peers' exit codes do not say that they lost it
  return word_of(rank) == WorkerExit::kPeerLost ? kVictim : 1;
}

std::string name_of_rank(std::size_t rank) { return "rank " + std::to_string(rank); }

/// What a worker means by its exit code.
std::string_view meaning_of(const Sighting& rank) {
  switch (word_of(rank)) {
    case WorkerExit::kRefused:
      return " (RunSpec or environment refused)";
    case WorkerExit::kResource:
      return " (a file is damaged, or memory or disk ran out)";
    case WorkerExit::kPeerLost:
      return " (a peer was lost)";
    case WorkerExit::kUnsupported:
      return " (not supported here)";
    case WorkerExit::kDone:
    case WorkerExit::kFailed:
      break;
  }
  return "";
}

Status status_of(const Sighting& culprit) {
  if (!culprit.not_loaded.empty()) return Status::kResource;
  if (culprit.state == State::kSignalled) return Status::kFailed;
  switch (word_of(culprit)) {
    case WorkerExit::kRefused:
      return Status::kRefused;
    case WorkerExit::kResource:
      return Status::kResource;
    case WorkerExit::kUnsupported:
      return Status::kUnsupported;
    case WorkerExit::kDone:
    case WorkerExit::kFailed:
    case WorkerExit::kPeerLost:
      break;
  }
  return Status::kFailed;
}

std::string describe_end(std::size_t rank, const Sighting& seen) {
  const std::string who = seen.by_command && !left_early(seen) ? "the command" : name_of_rank(rank);
  if (!seen.not_loaded.empty())
    return who + " did not start, because its program could not be loaded: " + seen.not_loaded;
  const bool unseen = seen.state == State::kSignalled && seen.value == 0;
  const std::string deed = unseen ? " ended without a message"
                           : seen.state == State::kSignalled
                               ? " was killed by " + name_of_signal(seen.value)
                               : " exited with code " + std::to_string(seen.value) + std::string(meaning_of(seen));
  return who + deed + " " + place_of(seen.progress);
}

std::vector<std::size_t> unfinished_ranks(const std::vector<Sighting>& ranks) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (unfinished(ranks[i])) found.push_back(i);
  }
  return found;
}

/// The only rank that was done before a step that another one began.
std::optional<std::size_t> only_early_one(const std::vector<Sighting>& ranks) {
  std::vector<std::size_t> early;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (std::any_of(ranks.begin(), ranks.end(),
                    [&](const Sighting& other) { return done_before(ranks[i].progress, other.progress); }))
      early.push_back(i);
  }
  return early.size() == 1 ? std::optional(early[0]) : std::nullopt;
}

/// The only rank that left in peace, where every other one lost a peer.
std::optional<std::size_t> only_one_in_peace(const std::vector<Sighting>& ranks) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const bool victim = failed(ranks[i]) && blame_class(ranks[i]) == kVictim;
    const bool in_peace = ranks[i].state == State::kExited && ranks[i].value == 0;
    if (victim) continue;
    if (!in_peace || found) return std::nullopt;
    found = i;
  }
  return found;
}

/// Whether a rank failed by its own doing, as far as one round tells.
bool failed_by_itself(const Sighting& rank) {
  if (!failed(rank)) return false;
  if (rank.state == State::kSignalled) return rank.value != SIGTERM && rank.value != SIGKILL && rank.value != SIGPIPE;
  return word_of(rank) != WorkerExit::kPeerLost;
}

/// Notes which ranks their launcher ended, since another one had failed.
std::vector<Sighting> with_launchers_victims(std::vector<Sighting> ranks) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Sighting& rank : ranks) {
    if (failed(rank)) first = std::min(first, rank.round);
  }
  const bool someone_failed = std::any_of(
      ranks.begin(), ranks.end(), [&](const Sighting& rank) { return rank.round == first && failed_by_itself(rank); });
  for (Sighting& rank : ranks) {
    rank.ended_by_launcher = rank.under_launcher && rank.state == State::kSignalled &&
                             (rank.value == SIGTERM || rank.round > first || (rank.value == SIGKILL && someone_failed));
  }
  return ranks;
}

Judgement blame_early_one(Status status, std::size_t rank, const Sighting& seen) {
  return {.status = status,
          .culprit = static_cast<std::int64_t>(rank),
          .why = name_of_rank(rank) + " finished " + place_of(seen.progress) + ", while the others continued"};
}

/// Unfinished ranks that stand where the slowest stands; only stopped ones if there are any.
std::vector<std::size_t> suspects(const std::vector<Sighting>& ranks) {
  std::vector<std::size_t> stopped;
  std::vector<std::size_t> slowest;
  for (const std::size_t i : unfinished_ranks(ranks)) {
    if (ranks[i].state == State::kStopped) stopped.push_back(i);
    if (!slowest.empty() && position(ranks[i]) > position(ranks[slowest[0]])) continue;
    if (!slowest.empty() && position(ranks[i]) < position(ranks[slowest[0]])) slowest.clear();
    slowest.push_back(i);
  }
  return stopped.empty() ? slowest : stopped;
}

/// " while the others waited in backward", with as much of the place as they share.
std::string describe_others(const std::vector<Sighting>& ranks, const std::vector<std::size_t>& suspects) {
  std::vector<const Sighting*> others;
  for (const std::size_t i : unfinished_ranks(ranks)) {
    if (std::find(suspects.begin(), suspects.end(), i) == suspects.end()) others.push_back(&ranks[i]);
  }
  if (others.empty()) return suspects.size() == ranks.size() ? "" : " while the others had finished";
  for (const Sighting* other : others) {
    if (place(*other) != place(*others[0])) return " while the others were ahead";
  }
  const Progress& there = others[0]->progress;
  const bool same_step =
      there.step >= 0 && there.step == ranks[suspects[0]].progress.step && there.phase != Phase::kDone;
  return " while the others waited " +
         (same_step ? "in " + std::string(name_of(there.phase)) : place_of(there, others.size()));
}

std::string describe_suspects(const std::vector<Sighting>& ranks, const std::vector<std::size_t>& suspects) {
  if (suspects.size() == ranks.size() && ranks.size() > 1) return "all ranks";
  std::string text = suspects.size() > 1 ? "ranks " : "rank ";
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    if (i > 0) text += i + 1 == suspects.size() ? " and " : ", ";
    text += std::to_string(suspects[i]);
  }
  return text;
}

/// What the suspects did instead of finishing, and where.
std::string describe_inaction(const Sighting& suspect, std::size_t count, Expiry expiry) {
  const std::string seconds = to_decimal(expiry.seconds) + " s";
  const std::string place = place_of(suspect.progress, count);
  const std::string verb = count > 1 ? " were" : " was";
  if (suspect.state == State::kStopped) return verb + " stopped by a signal " + place;
  if (suspect.state == State::kWaiting) return " had not started within " + seconds;
  if (expiry.clock == Expiry::Clock::kStall) return " made no progress for " + seconds + " " + place;
  return " did not finish within " + seconds + (count > 1 ? ": they were " : ": it was ") + place;
}

/// The option whose limit ended a run, as the scenario has it.
std::string option_of(Expiry expiry) {
  switch (expiry.clock) {
    case Expiry::Clock::kStall:
      return " (launch.stall_s = " + to_decimal(expiry.seconds) + ")";
    case Expiry::Clock::kDeadline:
      return " (launch.deadline_s = " + to_decimal(expiry.seconds) + ")";
    case Expiry::Clock::kStop:
      break;
  }
  return "";
}

}  // namespace

std::string name_of_signal(int signal) {
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

bool failed(const Sighting& rank) {
  return rank.state == State::kSignalled || (rank.state == State::kExited && rank.value != 0) || left_early(rank);
}

bool done_before(const Progress& rank, const Progress& other) {
  return rank.phase == Phase::kDone && other.phase != Phase::kDone && other.step > rank.step;
}

Judgement judge_failure(const std::vector<Sighting>& seen) {
  const std::vector<Sighting> ranks = with_launchers_victims(seen);
  const auto order = [&ranks](std::size_t i) {
    return std::tuple(blame_class(ranks[i]), ranks[i].round, position(ranks[i]));
  };
  std::optional<std::size_t> culprit;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (failed(ranks[i]) && (!culprit || order(i) < order(*culprit))) culprit = i;
  }
  LOCKSTEP_CHECK(culprit.has_value());
  const bool only_victims = blame_class(ranks[*culprit]) == kVictim;
  const auto early = only_early_one(ranks);
  if (only_victims && early) return blame_early_one(Status::kFailed, *early, ranks[*early]);
  if (const auto left = only_one_in_peace(ranks); only_victims && left)
    return {
        .status = Status::kFailed,
        .culprit = static_cast<std::int64_t>(*left),
        .why = name_of_rank(*left) + " left " + place_of(ranks[*left].progress) + " without waiting for the others"};
  return {.status = status_of(ranks[*culprit]),
          .culprit = static_cast<std::int64_t>(*culprit),
          .why = describe_end(*culprit, ranks[*culprit])};
}

Judgement judge_hang(const std::vector<Sighting>& ranks, Expiry expiry) {
  const auto early = only_early_one(ranks);
  if (early && expiry.clock != Expiry::Clock::kStop) {
    Judgement judgement = blame_early_one(Status::kHung, *early, ranks[*early]);
    judgement.why += option_of(expiry);
    return judgement;
  }
  const std::vector<std::size_t> blamed = suspects(ranks);
  LOCKSTEP_CHECK(!blamed.empty());
  const Sighting& first = ranks[blamed[0]];
  Judgement judgement{.status = Status::kHung};
  if (blamed.size() == 1) judgement.culprit = static_cast<std::int64_t>(blamed[0]);
  judgement.why = describe_suspects(ranks, blamed) + describe_inaction(first, blamed.size(), expiry) +
                  describe_others(ranks, blamed) + option_of(expiry);
  return judgement;
}

std::string linker_error_in(const std::string& log) {
  for (const char* said : {": error while loading shared libraries: ", ": symbol lookup error: ",
                           ": relocation error: ", " not found (required by "}) {
    const std::size_t at = log.find(said);
    if (at == std::string::npos) continue;
    const std::size_t line = log.rfind('\n', at) + 1;  // npos + 1 is 0
    return log.substr(line, log.find('\n', at) - line);
  }
  return "";
}

std::string place_of(const Progress& progress, std::size_t ranks) {
  if (progress.step < 0) return ranks > 1 ? "before their first step" : "before its first step";
  const std::string step = "step " + std::to_string(progress.step);
  if (progress.phase == Phase::kDone) return "after " + step;
  return "at " + step + " in " + std::string(name_of(progress.phase));
}

}  // namespace lockstep::launch
