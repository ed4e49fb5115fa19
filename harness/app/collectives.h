#pragma once

#include <filesystem>
#include <string>

#include "harness/app/commands.h"

namespace lockstep::app {

/// Sums, gathers and sends exact numbers between `ranks` workers over Gloo or NCCL, and prints a table as nccl-tests
/// does: size, time, algorithm and bus bandwidth, wrong elements. Returns a summary. *Throws*: DamagedFile with the
/// first wrong row; ResourceError if a worker fails.
std::string examine_collectives(const DoctorOptions& options);

}  // namespace lockstep::app
