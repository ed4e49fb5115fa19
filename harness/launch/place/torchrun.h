#pragma once

#include "harness/launch/place/reader.h"

namespace lockstep::launch {

/// Reads what torchrun sets, and what starts its agents: torch.distributed.launch of torch 2, accelerate launch.
///
/// If the agent serves a store, its keys have the prefix that torch.distributed uses.
/// *Source*: torch/distributed/elastic/agent/server/local_elastic_agent.py and rendezvous.py, torch 2.11.
Place place_of_torchrun(Reader& reader);

/// Number of agents, GROUP_WORLD_SIZE.
std::int64_t agents_of_torchrun(Reader& reader);

}  // namespace lockstep::launch
