#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

#include "harness/launch/job.h"
#include "harness/launch/lifeline.h"
#include "harness/launch/listener.h"
#include "harness/launch/outcome.h"
#include "harness/launch/process.h"
#include "harness/launch/processes.h"

namespace lockstep::launch {

/// After the first failure the other ranks get this long to fail by themselves, so that their evidence is written.
constexpr std::chrono::milliseconds kGrace{2000};

/// After SIGKILL a rank gets this long to disappear; one that does not hangs in the kernel.
constexpr std::chrono::milliseconds kEndingLimit{10000};

/// A pause between two looks counts as at most this much silence of the ranks: a machine that stood still, or that had
/// no time for us, had none for them either.
constexpr std::chrono::milliseconds kMostSilencePerLook{100};

/// A rank that a signal has stopped ends the run after this long: time enough to continue it by hand.
constexpr std::chrono::duration<double> kStopGrace{2};

/// One run of one job under supervision. Its owner looks at it again and again until it is over.
class LocalRun {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// *Lifetime*: borrows all three.
  LocalRun(const Job& job, const OrphanKeeper& orphans, const Lifeline& lifeline, Time now);

  /// One round: notes ends and progress, judges, and starts ranks that are due.
  /// *Throws*: InputError when the command cannot be executed.
  void look(Time now);

  /// Ends the run because of a signal to us.
  void interrupt(int signal, Time now);

  /// Whether the outcome stands and no process is left.
  bool over() const { return outcome_.has_value(); }
  const RunOutcome& outcome() const { return *outcome_; }

  /// Of the rank that has come least far.
  Progress progress() const;

  /// Adds the descriptors that become readable when a rank ends.
  void watch(std::vector<pollfd>& descriptors) const;

 private:
  struct Rank {
    Sighting sighting{.state = Sighting::State::kWaiting};
    std::optional<Process> process;
    RankExit exit;
    Time due;
    bool moved = false;                        ///< gave a sign of life since the last look
    std::chrono::duration<double> stopped{0};  ///< by a signal, without a break
  };

  void start_ranks(Time now);
  void prepare();
  void start(std::size_t rank);
  void note_ends(Time now);
  void note_end(Rank& rank, Process::Exit end, Time now);
  void note_progress();
  void note_halts(std::chrono::duration<double> elapsed);
  void note_linker_errors();
  void note_failure(Time now);
  void judge(Time now);
  std::optional<Expiry> expiry(Time now) const;
  void end(Judgement judgement, Time now);
  void close(Time now);
  bool all_gone() const;
  double seconds_since_start(Time now) const;

  const Job& job_;
  const OrphanKeeper& orphans_;
  const Lifeline& lifeline_;
  std::string id_;
  Time start_;
  Time last_look_;
  std::chrono::duration<double> silence_{0};  ///< of all ranks, since the last sign of life of any
  std::int64_t round_ = 0;
  std::vector<Rank> ranks_;
  std::optional<Listener> listener_;  ///< until rank 0 has it
  std::uint16_t port_ = 0;
  std::optional<Time> failed_at_;
  std::optional<Time> ended_at_;  ///< by us; the judgement stands since then
  Judgement judgement_;
  std::optional<RunOutcome> outcome_;
};

}  // namespace lockstep::launch
