#pragma once

#include <string>
#include <vector>

#include "harness/launch/other_launchers.h"

/// Runs as jobs of Slurm, which outlive us.
namespace lockstep::launch {

/// Submits a run as a job, unless it has one, and waits for its end. The job leaves at once if run.id (kRunIdFile)
/// names another run than its own: it has waited for too long.
std::vector<StartCommand> submit_to_slurm(const Launch& launch);

/// Name of the job of a run that has this id.
std::string slurm_job_name(const std::string& run_id);

}  // namespace lockstep::launch
