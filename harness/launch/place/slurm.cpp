#include "harness/launch/place/slurm.h"

#include <algorithm>

namespace lockstep::launch {
namespace {

/// Nodes are counted where processes should be: pytorch's own scripts for Slurm do it.
void require_no_count_of_nodes(Reader& reader, std::int64_t tasks) {
  const auto nodes = reader.number("SLURM_STEP_NUM_NODES", {1, kMostRanks});
  const auto world_size = reader.number("WORLD_SIZE", {1, kMostRanks});
  if (!nodes || !world_size || *world_size == tasks || *world_size != *nodes) return;
  refuse_contradiction("WORLD_SIZE and SLURM_STEP_NUM_TASKS", "a WORLD_SIZE that counts processes",
                       "WORLD_SIZE=" + std::to_string(*world_size) + ", which is the number of nodes, and " +
                           std::to_string(tasks) + " tasks",
                       "set WORLD_SIZE=$SLURM_NTASKS, or leave it unset");
}

std::string first_port(const std::string& ports) { return ports.substr(0, ports.find_first_of("-,")); }

}  // namespace

Place place_of_slurm(Reader& reader) {
  Place place;
  const auto job_tasks = reader.number("SLURM_NTASKS", {1, kMostRanks});
  if (!reader.has("SLURM_STEP_NUM_TASKS") && job_tasks.value_or(1) > 1)
    refuse("SLURM_STEP_NUM_TASKS", "a number, as srun sets it",
           "not set, and the job has " + std::to_string(*job_tasks) +
               " tasks: a batch script is no rank, start with srun");
  place.world_size = tasks_of_slurm(reader);
  place.rank = reader.required("SLURM_PROCID", {0, place.world_size - 1});
  reader.required("SLURM_LOCALID", {0, place.world_size - 1});
  place.local_rank = *agreed(reader, {"SLURM_LOCALID", "LOCAL_RANK"}, {0, place.world_size - 1});
  const auto nodes_of_step = reader.number("SLURM_STEP_NUM_NODES", {1, kMostRanks});
  place.node = reader.number("SLURM_NODEID", {0, nodes_of_step.value_or(kMostRanks) - 1});
  require_no_count_of_nodes(reader, place.world_size);
  const auto nodes = reader.text("SLURM_STEP_NODELIST");
  const bool one_node = reader.number("SLURM_STEP_NUM_NODES", {1, kMostRanks}) == 1;
  if (nodes && !one_node && !reader.has("MASTER_ADDR")) place.master_address = first_of_hostlist(*nodes);
  const auto ports = reader.text("SLURM_STEP_RESV_PORTS");
  if (!ports || reader.has("MASTER_PORT")) {
    read_master(reader, place);
    return place;
  }
  Environment reserved = {{"MASTER_ADDR", reader.text("MASTER_ADDR").value_or(place.master_address)},
                          {"MASTER_PORT", first_port(*ports)}};
  Reader of_step(reserved);
  read_master(of_step, place);
  return place;
}

std::int64_t tasks_of_slurm(Reader& reader) {
  return reader.number("SLURM_STEP_NUM_TASKS", {1, kMostRanks}).value_or(1);
}

std::string first_of_hostlist(const std::string& list) {
  const std::size_t bracket = list.find('[');
  const std::size_t comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket) return list.substr(0, comma);
  const std::size_t end = list.find_first_of("-,]", bracket + 1);
  const std::size_t close = std::min(list.find(']', bracket), list.size() - 1);
  const std::size_t next = std::min(list.find(',', close), list.size());
  return list.substr(0, bracket) + list.substr(bracket + 1, end - bracket - 1) +
         list.substr(close + 1, next - close - 1);
}

}  // namespace lockstep::launch
