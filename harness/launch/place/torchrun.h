#pragma once

#include "harness/launch/environment.h"
#include "harness/launch/place.h"

/// Reads and writes torchrun's environment variables. LOCKSTEP_ variables carry what torchrun has no variable for.
namespace lockstep::launch {

/// Reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCKSTEP_LISTEN_FD, LOCKSTEP_SUPERVISOR_FD and
/// LOCKSTEP_STEP_DELAY_MS.
///
/// RANK and WORLD_SIZE are required. MASTER_PORT is required with more than one rank. Defaults: LOCAL_RANK is RANK,
/// MASTER_ADDR is 127.0.0.1.
/// *Throws*: InputError.
Place place_from_torchrun();

/// Variables that `place_from_torchrun` reads, and LOCAL_WORLD_SIZE, for a run with all ranks on this machine.
Environment torchrun_variables_of(const Place& place);

/// Removes variables that an outer lockstep set for this process alone.
void forget_own_place(Environment& environment);

/// The same, and what any launcher said of this process: a program that starts ranks would take it for its own.
void forget_place(Environment& environment);

}  // namespace lockstep::launch
