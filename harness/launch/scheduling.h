#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include <sys/types.h>

/// How long processes waited for a processor, and whether they load, from /proc.
namespace lockstep::launch {

/// Of a process and its descendants.
struct Scheduling {
  /// By thread: how long it was runnable without a processor, since it began. A thread that still waits counts only up
  /// to its last turn. *Source*: run_delay of /proc/<pid>/schedstat (Documentation/scheduler/sched-stats.rst). Zeros if
  /// the kernel counts no such time.
  std::map<pid_t, std::chrono::nanoseconds> queued;

  /// Page faults of all processes since they began, without and with reading from a disk. They grow while a program is
  /// loaded, and not while it waits or spins.
  std::uint64_t page_faults = 0;
};

/// Empty if the process does not exist.
Scheduling scheduling_of(pid_t pid);

}  // namespace lockstep::launch
