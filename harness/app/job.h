#pragma once

#include <filesystem>

#include "harness/launch/job.h"
#include "harness/plan/plan.h"

namespace lockstep::app {

/// Job of a run for a launcher: the program's command and the placement of its ranks. Writes the program's input files
/// into `directory`, which must exist. `worker`: the executable of a WorkerProgram.
launch::Job job_of(const plan::Run& run, const std::filesystem::path& worker, const std::filesystem::path& directory);

}  // namespace lockstep::app
