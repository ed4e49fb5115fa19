#pragma once

#include <filesystem>
#include <string>

#include "harness/app/options.h"

namespace lockstep::app {

struct DoctorOptions {
  RunOptions run;
  bool collectives = false;    ///< checks sums and copies between ranks
  std::string over = "gloo";   ///< library of that check, or "nccl"
  std::int64_t ranks = 2;      ///< of that check
  bool wrong_element = false;  ///< plants one, to see that it is found
};

/// Sums, gathers and sends exact numbers between `ranks` workers over Gloo or NCCL, and prints a table as nccl-tests
/// does: size, time, algorithm and bus bandwidth, wrong elements. Returns a summary. *Throws*: DamagedFile with the
/// first wrong row; ResourceError if a worker fails.
std::string examine_collectives(const DoctorOptions& options);

}  // namespace lockstep::app
