#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include <sys/types.h>

#include "harness/launch/scheduling.h"

namespace lockstep::launch {

/// Longest time counted between two looks. If this process was paused for longer, so were those that it waits for.
constexpr std::chrono::milliseconds kMostPerLook{100};

/// Time between two questions to the kernel about the processes that we wait for, at the beginning.
constexpr std::chrono::milliseconds kAskEvery{100};

/// Later it is this part of the time that has passed.
constexpr double kAskPart = 0.05;

/// Page faults between two questions that show that a program is being loaded.
constexpr std::uint64_t kFaultsOfLoading = 16;

/// At least one of so many seconds on the clock counts, so that whatever hangs is found.
constexpr double kMostStretch = 10;

/// A process that we wait for, with its descendants.
struct Awaited {
  pid_t pid = -1;
  bool loads = false;  ///< it has shown no progress yet: its program may still be loading
};

/// Counts how long we have waited for processes that could have run.
///
/// On a busy machine a process waits for a processor. That time does not count. It is the time that threads of a
/// process and its descendants were queued, up to the time in which none of them ran. With several processes, the one
/// that waited longest stands for all, or all together where they took turns. Neither counts time in which a process
/// loads its program, or in which a child of it ended: how long that one was queued is unknown. All other time
/// counts: that of threads that sleep, run or are stopped, and any time on another host.
class Patience {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Seconds = std::chrono::duration<double>;

  explicit Patience(Time now) : last_look_(now) {}

  /// Begins anew: there was progress.
  void renew();

  /// Notes the time that went by since the last call.
  void pass(Time now);

  /// Whether the time that counts has reached the limit, asking the kernel about the processes if need be.
  bool is_over(Seconds limit, const std::vector<Awaited>& processes);

 private:
  Seconds waited() const;
  void ask(const std::vector<Awaited>& processes);

  Time last_look_;
  Seconds time_{0};     ///< since the beginning
  Seconds counted_{0};  ///< the part of it that was between looks of kMostPerLook
  Seconds excused_{0};  ///< the part of `counted_` that does not count

  /// The last question.
  Seconds asked_time_{0}, asked_counted_{0};  ///< `time_` and `counted_` then
  std::map<pid_t, Scheduling> asked_;         ///< by process; empty before the first question
};

}  // namespace lockstep::launch
