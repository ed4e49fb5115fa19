#pragma once

#include <string>

#include "harness/launch/place/place_reader.h"

namespace lockstep::launch {

/// Reads what srun sets for each task: SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID, SLURM_STEP_NUM_TASKS.
///
/// The job's SLURM_NTASKS can exceed the step's tasks and is not read. Defaults: MASTER_ADDR is the first node of
/// SLURM_STEP_NODELIST, or 127.0.0.1 if it is the only one; MASTER_PORT the first of SLURM_STEP_RESV_PORTS (srun
/// --resv-ports). A batch script is one process that no srun has started: with more than one task it is no rank, and is
/// refused. *Source*: srun(1), section OUTPUT ENVIRONMENT VARIABLES, Slurm 22.05.
Place place_of_slurm(Reader& reader);

/// Processes that srun has started: the tasks of this step, and 1 in a batch script.
std::int64_t tasks_of_slurm(Reader& reader);

/// "n1" of "n[1-4,7]", "a-01" of "a-[01-03],b2".
std::string first_of_hostlist(const std::string& list);

}  // namespace lockstep::launch
