#include "harness/launch/place/nodes.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace lockstep::launch {
namespace {

/// training-operator's default is "auto", which it counts as one process; a torchrun in the pod would count otherwise.
std::optional<std::int64_t> processes_of_node(Reader& reader) {
  constexpr const char* kNames[] = {"NPROC_PER_NODE", "PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE"};
  const auto is_word = [&](const char* name) {
    if (!reader.has(name)) return false;
    const std::string value = *reader.text(name);
    return value == "auto" || value == "cpu" || value == "gpu";
  };
  const auto number_in = [&](const char* name) { return is_word(name) ? nullptr : name; };
  const auto number =
      agreed(reader, {number_in(kNames[0]), number_in(kNames[1]), number_in(kNames[2])}, {1, kMostRanks});
  const bool counts_one = std::any_of(std::begin(kNames), std::end(kNames), is_word);
  return number || !counts_one ? number : std::optional<std::int64_t>(1);
}

}  // namespace

Place place_of_nodes(Reader& reader) {
  const auto processes = processes_of_node(reader);
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
