#pragma once

#include <cstdlib>

#include <sched.h>

namespace lockstep::launch {

/// From now on this process computes on the first processor that it may use, and on no other.
inline void pin_to_first_processor() {
  cpu_set_t allowed, first;
  CPU_ZERO(&first);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) std::abort();
  int processor = 0;
  while (!CPU_ISSET(processor, &allowed)) ++processor;
  CPU_SET(processor, &first);
  if (::sched_setaffinity(0, sizeof first, &first) != 0) std::abort();
}

}  // namespace lockstep::launch
