#pragma once

#include <filesystem>

#include "harness/launch/job.h"
#include "harness/plan/plan.h"

namespace lockstep::app {

/// What a launcher gets of a run: the command that its program is, and how its ranks are placed. Writes the files that
/// the program reads into `directory`, which exists. `worker`: what a WorkerProgram executes.
launch::Job job_of(const plan::Run& run, const std::filesystem::path& worker, const std::filesystem::path& directory);

}  // namespace lockstep::app
