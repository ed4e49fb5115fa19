#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <poll.h>

#include "harness/launch/attendance.h"
#include "harness/launch/fork_server.h"
#include "harness/launch/job.h"
#include "harness/launch/lifeline.h"
#include "harness/launch/listener.h"
#include "harness/launch/outcome.h"
#include "harness/launch/patience.h"
#include "harness/launch/process.h"
#include "harness/launch/processes.h"
#include "harness/launch/variables.h"

namespace lockstep::launch {

/// Time for the other ranks to fail by themselves after the first failure, so that they write their evidence.
constexpr std::chrono::milliseconds kGrace{2000};

/// Time for a rank to disappear after SIGKILL. One that does not hangs in the kernel.
constexpr std::chrono::milliseconds kEndingLimit{10000};

/// Time after which a stopped rank (SIGSTOP) ends the run. It leaves time to continue the rank by hand.
constexpr std::chrono::duration<double> kStopGrace{2};

/// Time for a launcher such as torchrun to end after its ranks have.
constexpr std::chrono::milliseconds kLauncherPatience{3000};

/// One supervised run of one job. Its owner calls `look` until it is over.
class LocalRun {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// *Lifetime*: borrows all four.
  LocalRun(const Job& job, ForkServers& servers, const OrphanKeeper& orphans, const Lifeline& lifeline, Time now);

  /// One round: notes exits and progress, judges, and starts ranks that are due.
  /// *Throws*: InputError if the command cannot be executed.
  void look(Time now);

  /// Ends the run because we received a signal; the second time, without waiting for its launcher.
  void interrupt(int signal, Time now);

  /// Whether the outcome is known and no process is left.
  bool over() const { return outcome_.has_value(); }
  const RunOutcome& outcome() const { return *outcome_; }

  /// Whether it began under a process before us and did not end well: how it failed is unknown.
  bool failed_unseen() const;

  /// Progress of the slowest rank.
  Progress progress() const;

  /// Adds descriptors that become readable when a rank ends.
  void watch(std::vector<pollfd>& descriptors) const;

 private:
  struct Rank {
    Sighting sighting{.state = Sighting::State::kWaiting};
    std::optional<Process> process;      ///< of a command that starts its ranks itself, with rank 0
    std::optional<Attendant> attendant;  ///< under another launcher instead, and of a command beside it
    std::optional<Sighting> own_end;     ///< of a command's rank, which its attendant saw
    std::string before;                  ///< its process before its launcher started all ranks again
    RankExit exit;
    Time due;
    bool moved = false;                        ///< showed progress since the last look
    std::chrono::duration<double> stopped{0};  ///< how long it has been stopped by a signal
  };

  /// A process of another launcher.
  struct OtherStarter {
    Process process;
    std::optional<Process::Exit> exit;
  };

  void start_ranks(Time now);
  void prepare();
  bool starts_itself() const { return job_.starter == Starter::kCommand; }
  bool has_other_launcher() const { return job_.starter == Starter::kOther; }
  Environment environment() const;
  void spawn(std::size_t rank, const Environment& environment, const std::vector<int>& inherited);
  void start_command();
  void start_others();
  void start(std::size_t rank);
  void note_ends(Time now);
  void note_end(Rank& rank, Process::Exit end, Time now);
  void note_attendance(Time now);
  void note_others_end(Time now);
  bool others_ended() const;
  void note_progress();
  void note_halts(std::chrono::duration<double> elapsed);
  void note_linker_errors();
  void note_failure(Time now);
  bool may_start_again() const;
  void start_again();
  std::vector<Sighting> sightings() const;
  void note_own_end(Rank& rank);
  Judgement judge_command() const;
  void judge(Time now);
  std::vector<Awaited> awaited(bool may_load) const;
  std::optional<Expiry> expiry(Time now);
  void end(Judgement judgement, Time now);
  void close(Time now);
  bool ranks_gone() const;
  bool all_gone() const;
  double seconds_since_start(Time now) const;

  const Job& job_;
  ForkServers& servers_;
  const OrphanKeeper& orphans_;
  const Lifeline& lifeline_;
  bool interrupted_ = false;
  bool adopted_ = false;  ///< its ranks were started by a process before us
  std::string id_;
  Time start_;
  Time last_look_;
  Patience silence_;        ///< since the last progress of any rank
  Patience after_failure_;  ///< since the first failure
  std::int64_t round_ = 0;
  std::vector<Rank> ranks_;
  std::vector<OtherStarter> others_;
  std::optional<Listener> listener_;  ///< until rank 0 inherits it
  std::uint16_t port_ = 0;
  std::optional<Time> failed_at_;
  std::optional<Time> ended_at_;  ///< when we ended it; the judgement is final since then
  Judgement judgement_;
  std::vector<std::string> restarts_;  ///< why its launcher started all ranks again
  std::optional<RunOutcome> outcome_;
};

}  // namespace lockstep::launch
