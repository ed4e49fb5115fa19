#include "harness/launch/place/nodes.h"

#include <string>

namespace lockstep::launch {
Place place_of_nodes(Reader& reader) {
  const auto processes =
      agreed(reader, {"NPROC_PER_NODE", "PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE"}, {1, kMostRanks});
  if (!processes) refuse("NPROC_PER_NODE", "the number of processes on each node", "not set");
  const std::int64_t world_size = reader.required("WORLD_SIZE", {1, kMostRanks});
  const std::int64_t nodes = reader.number("PET_NNODES", {1, kMostRanks}).value_or(world_size);
  if (world_size != nodes && world_size != nodes * *processes)
    refuse_contradiction("WORLD_SIZE and PET_NNODES",
                         "WORLD_SIZE = " + std::to_string(nodes * *processes) + ", the processes of all nodes",
                         "WORLD_SIZE=" + std::to_string(world_size) + ", " + std::to_string(nodes) + " nodes of " +
                             std::to_string(*processes) + " processes",
                         "let the operator set WORLD_SIZE, PET_NNODES and PET_NPROC_PER_NODE");
  if (nodes > kMostRanks / *processes) refuse("NPROC_PER_NODE", "fewer processes", std::to_string(*processes));
  Place place;
  place.world_size = nodes * *processes;
  const auto node = agreed(reader, {"RANK", "PET_NODE_RANK"}, {0, nodes - 1});
  if (!node) refuse("RANK", "the number of this node", "not set");
  place.node = node;
  if (*processes > 1 && !reader.has("LOCAL_RANK"))
    refuse("LOCAL_RANK", "the number of this process on its node, since RANK counts nodes",
           "not set: start the processes of a node with torchrun, or set LOCAL_RANK");
  place.local_rank = reader.number("LOCAL_RANK", {0, *processes - 1}).value_or(0);
  place.rank = *node * *processes + place.local_rank;
  if (nodes > 1) place.master_address.clear();
  read_master(reader, place);
  return place;
}

}  // namespace lockstep::launch
