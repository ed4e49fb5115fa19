#pragma once

#include <string>

#include "harness/launch/place/place_reader.h"

namespace lockstep::launch {

/// Reads what torchrun sets, and what starts its agents: torch.distributed.launch of torch 2, accelerate launch.
///
/// If the agent serves a store, its keys have the prefix that torch.distributed uses.
/// *Source*: torch/distributed/elastic/agent/server/local_elastic_agent.py and rendezvous.py, torch 2.11.
Place place_of_torchrun(Reader& reader);

/// Writes why this rank fails into TORCHELASTIC_ERROR_FILE, if an agent asks for it: the agent prints it then. Failures
/// to write are ignored. *Source*: torch/distributed/elastic/multiprocessing/errors/error_handler.py, torch 2.11.
void tell_torchrun(const Environment& environment, const std::string& message) noexcept;

/// Number of agents, GROUP_WORLD_SIZE.
std::int64_t agents_of_torchrun(Reader& reader);

}  // namespace lockstep::launch
