#pragma once

#include <filesystem>
#include <optional>

#include "harness/launch/job.h"

/// The outcome of a run in its folder, for a later process that judges the run or goes on with the others.
namespace lockstep::launch {

/// "outcome.json" in the folder of a run.
std::filesystem::path outcome_path(const std::filesystem::path& run_directory);

/// Whole or not at all. *Throws*: ResourceError.
void write_outcome(const std::filesystem::path& run_directory, const RunOutcome& outcome);

/// Nothing if the file is missing or is no outcome. Logs are looked for in `run_directory`, which may have moved.
std::optional<RunOutcome> read_outcome(const std::filesystem::path& run_directory);

}  // namespace lockstep::launch
