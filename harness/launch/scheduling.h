#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include <sys/types.h>

/// How long processes waited for a processor, and whether they load, from /proc.
namespace lockstep::launch {

/// Times of a thread since it began. *Source*: /proc/<pid>/task/<tid>/schedstat
/// (Documentation/scheduler/sched-stats.rst). Zeros if the kernel counts no such time.
struct ThreadTime {
  std::chrono::nanoseconds ran{0};
  std::chrono::nanoseconds queued{0};  ///< runnable without a processor, up to its last turn
};

/// Times of a process and its descendants.
struct Scheduling {
  std::map<pid_t, ThreadTime> threads;

  /// Page faults of all processes since they began, without and with reading from a disk. They grow while a program is
  /// loaded, and hardly while it waits or spins.
  std::uint64_t page_faults = 0;

  /// Processor time of descendants that have ended. *Units*: clock ticks.
  std::uint64_t ended_children = 0;
};

/// Empty if the process does not exist.
Scheduling scheduling_of(pid_t pid);

}  // namespace lockstep::launch
