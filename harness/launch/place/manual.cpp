#include "harness/launch/place/manual.h"

#include <string>

namespace lockstep::launch {
namespace {

constexpr const char* kListenVariable = "LOCKSTEP_LISTEN_FD";
constexpr const char* kStepDelayVariable = "LOCKSTEP_STEP_DELAY_MS";

/// More ranks on this node than in the world: PyTorchJob before training-operator's #1840 and SenseCore count nodes.
void require_processes(const char* name, std::int64_t value, std::int64_t most, const Place& place) {
  if (value <= most) return;
  refuse_contradiction(std::string("WORLD_SIZE and ") + name, "a WORLD_SIZE that counts processes",
                       "WORLD_SIZE=" + std::to_string(place.world_size) + ", " + name + "=" + std::to_string(value),
                       "if WORLD_SIZE counts nodes, as PyTorchJob and SenseCore set it, set NPROC_PER_NODE, too");
}

}  // namespace

Place place_of_manual(Reader& reader) {
  Place place;
  place.world_size = reader.required("WORLD_SIZE", {1, kMostRanks});
  const auto local_rank = reader.number("LOCAL_RANK", {});
  const auto local_size = reader.number("LOCAL_WORLD_SIZE", {1, kMostRanks});
  if (local_rank) require_processes("LOCAL_RANK", *local_rank, place.world_size - 1, place);
  if (local_size) require_processes("LOCAL_WORLD_SIZE", *local_size, place.world_size, place);
  place.rank = reader.required("RANK", {0, place.world_size - 1});
  place.local_rank = local_rank.value_or(place.rank);
  if (local_size && place.local_rank >= *local_size)
    refuse_contradiction(
        "LOCAL_RANK and LOCAL_WORLD_SIZE", "a LOCAL_RANK below LOCAL_WORLD_SIZE",
        "LOCAL_RANK=" + std::to_string(place.local_rank) + ", LOCAL_WORLD_SIZE=" + std::to_string(*local_size),
        "are variables left over in this shell?");
  const std::int64_t most_nodes = place.world_size - local_size.value_or(1) + 1;  // any other has a rank at least
  place.node = reader.number("NODE_RANK", {0, most_nodes - 1});
  read_master(reader, place);
  return place;
}

Environment variables_of(const Place& place) {
  Environment variables = {{"RANK", std::to_string(place.rank)},
                           {"LOCAL_RANK", std::to_string(place.local_rank)},
                           {"WORLD_SIZE", std::to_string(place.world_size)},
                           {"LOCAL_WORLD_SIZE", std::to_string(place.world_size)},
                           {"MASTER_ADDR", place.master_address},
                           {"MASTER_PORT", std::to_string(place.master_port)}};
  if (place.listen_descriptor) variables[kListenVariable] = std::to_string(*place.listen_descriptor);
  if (place.supervisor_descriptor) variables[kSupervisorVariable] = std::to_string(*place.supervisor_descriptor);
  if (place.step_delay_ms > 0) variables[kStepDelayVariable] = std::to_string(place.step_delay_ms);
  return variables;
}

void read_own(Reader& reader, Place& place) {
  constexpr std::int64_t kLastDescriptor = 1 << 30;
  constexpr std::int64_t kLongestDelay = 60000;
  if (const auto descriptor = reader.number(kListenVariable, {0, kLastDescriptor})) {
    if (place.rank != 0) refuse(kListenVariable, "not set, since only rank 0 listens", std::to_string(*descriptor));
    place.listen_descriptor = static_cast<int>(*descriptor);
  }
  if (const auto descriptor = reader.number(kSupervisorVariable, {0, kLastDescriptor}))
    place.supervisor_descriptor = static_cast<int>(*descriptor);
  place.step_delay_ms = reader.number(kStepDelayVariable, {0, kLongestDelay}).value_or(0);
  place.run_id = reader.text(kRunIdVariable).value_or("");
  place.supervisor_process = reader.text(kSupervisorProcessVariable).value_or("");
}

void forget_own_place(Environment& environment) {
  for (const char* name : {kListenVariable, kSupervisorVariable, kStepDelayVariable, kSupervisorProcessVariable})
    environment.erase(name);
}

}  // namespace lockstep::launch
