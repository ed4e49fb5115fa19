#pragma once

#include <cstdint>
#include <filesystem>

#include "harness/launch/job.h"
#include "harness/plan/plan.h"

namespace lockstep::app {

/// Surroundings of a start, for all kinds of programs.
struct Surroundings {
  std::filesystem::path worker;  ///< that a WorkerProgram executes
  std::uint16_t port = 0;        ///< a free one, for ranks that others start
};

/// Job of a run for a launcher: the program's command and the placement of its ranks. Writes the program's input files
/// into `directory`, which exists and is absolute.
/// *Throws*: InputError where a program, or the recorder for it, is missing; Unsupported where a launcher is.
launch::Job job_of(const plan::Run& run, const std::filesystem::path& directory, const Surroundings& around);

}  // namespace lockstep::app
