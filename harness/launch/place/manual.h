#pragma once

#include <vector>

#include "harness/launch/place/place_reader.h"

/// The variables of a rank that was started by hand, and those that lockstep sets itself. LOCKSTEP_ variables carry
/// what no launcher has a variable for.
namespace lockstep::launch {

/// The end of a pipe to lockstep. Only ranks that lockstep starts itself have it.
inline constexpr const char* kSupervisorVariable = "LOCKSTEP_SUPERVISOR_FD";

/// Host and process id of lockstep (attendance.h). Only ranks that another launcher starts for lockstep have it.
inline constexpr const char* kSupervisorProcessVariable = "LOCKSTEP_SUPERVISOR_PROCESS";

/// Its value for ranks that outlive lockstep.
inline constexpr const char* kNobody = "nobody";

/// Reads RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and LOCAL_RANK, LOCAL_WORLD_SIZE and NODE_RANK where set.
///
/// MASTER_PORT is required with more than one rank. Defaults: LOCAL_RANK is RANK, MASTER_ADDR is 127.0.0.1. Local ranks
/// that do not fit into WORLD_SIZE show that it counts nodes, and are refused.
Place place_of_manual(Reader& reader);

/// Variables that `place_of_manual` reads for a run with all ranks on this machine, and those of `read_own`.
Environment variables_of(const Place& place);

/// Reads LOCKSTEP_LISTEN_FD, LOCKSTEP_SUPERVISOR_FD, LOCKSTEP_STEP_DELAY_MS, LOCKSTEP_RUN_ID and
/// LOCKSTEP_SUPERVISOR_PROCESS.
void read_own(Reader& reader, Place& place);

/// Removes variables that an outer lockstep set for this process alone.
void forget_own_place(Environment& environment);

}  // namespace lockstep::launch
