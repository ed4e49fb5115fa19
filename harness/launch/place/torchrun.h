#pragma once

#include "harness/launch/environment.h"
#include "harness/launch/place.h"

/// A place as torchrun tells it, and as lockstep does, with LOCKSTEP_ variables for what torchrun has no word for.
namespace lockstep::launch {

/// Reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCKSTEP_LISTEN_FD, LOCKSTEP_SUPERVISOR_FD and
/// LOCKSTEP_STEP_DELAY_MS.
///
/// RANK and WORLD_SIZE are required; LOCAL_RANK is RANK unless given, MASTER_ADDR is 127.0.0.1; MASTER_PORT is required
/// when there is more than one rank.
/// *Throws*: InputError.
Place place_from_torchrun();

/// What `place_from_torchrun` reads, and LOCAL_WORLD_SIZE, for a run whose ranks are all on this machine.
Environment torchrun_variables_of(const Place& place);

/// Takes away what an outer lockstep said to this process alone.
void forget_own_place(Environment& environment);

}  // namespace lockstep::launch
