#pragma once

#include <string>
#include <vector>

#include "harness/launch/place/place_reader.h"
#include "harness/launch/variables.h"

/// Places that stand on the command line.
namespace lockstep::launch {

/// Whether an argument gives a place: "rank=0" and its like in Hydra's style, or "--local-rank=0".
bool is_place_argument(const std::string& argument);

/// Arguments as variables: "world_size=4" as {"world_size=", "4"}. "--local_rank" is LOCAL_RANK.
/// *Throws*: InputError for an argument that is there twice with two values.
Environment variables_of_arguments(const std::vector<std::string>& arguments);

/// Reads rank=, world_size=, local_rank=, master_addr= and master_port=; MASTER_ADDR and MASTER_PORT for the last two.
/// Instead of these, init_method= says where the ranks meet, as torch.distributed takes it: tcp://HOST:PORT,
/// file:///PATH, which all ranks see and no run before has used, or env://.
Place place_of_arguments(Reader& reader);

}  // namespace lockstep::launch
