#include "harness/launch/place/torchrun.h"

#include <ctime>
#include <exception>
#include <string>

#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep::launch {
namespace {

constexpr const char* kLeftOver =
    "are variables of torchrun left over in this shell? unset TORCHELASTIC_RUN_ID, or open a new shell";

/// torchrun sets a pair of variables to one value: who overwrites RANK in a shell forgets ROLE_RANK.
void require_equal(Reader& reader, const char* name, std::int64_t value, const char* other) {
  const auto found = reader.number(other, {});
  if (!found || *found == value) return;
  refuse_contradiction(std::string(name) + " and " + other, "equal numbers, as torchrun sets them",
                       name + ("=" + std::to_string(value)) + ", " + other + "=" + std::to_string(*found), kLeftOver);
}

}  // namespace

Place place_of_torchrun(Reader& reader) {
  Place place;
  place.world_size = reader.required("WORLD_SIZE", {1, kMostRanks});
  place.rank = reader.required("RANK", {0, place.world_size - 1});
  place.local_rank = reader.required("LOCAL_RANK", {0, place.world_size - 1});
  const std::int64_t agents = agents_of_torchrun(reader);
  if (agents > place.world_size)
    refuse("GROUP_WORLD_SIZE", "at most WORLD_SIZE, " + std::to_string(place.world_size), std::to_string(agents));
  place.node = reader.number("GROUP_RANK", {0, agents - 1});
  const std::int64_t most = place.world_size - agents + 1;  // any other agent has a rank at least
  const auto local_size = reader.number("LOCAL_WORLD_SIZE", {1, most});
  if (local_size) reader.number("LOCAL_RANK", {0, *local_size - 1});
  require_equal(reader, "RANK", place.rank, "ROLE_RANK");
  require_equal(reader, "WORLD_SIZE", place.world_size, "ROLE_WORLD_SIZE");
  if (agents == 1) {
    require_equal(reader, "RANK", place.rank, "LOCAL_RANK");
    require_equal(reader, "WORLD_SIZE", place.world_size, "LOCAL_WORLD_SIZE");
  }
  place.master_address.clear();
  read_master(reader, place);
  if (reader.text("TORCHELASTIC_USE_AGENT_STORE") == "True") {
    const std::int64_t attempt = reader.number("TORCHELASTIC_RESTART_COUNT", {}).value_or(0);
    place.store_prefix = "/worker/attempt_" + std::to_string(attempt);
  }
  return place;
}

void tell_torchrun(const Environment& environment, const std::string& message) noexcept {
  try {
    const auto file = environment.find("TORCHELASTIC_ERROR_FILE");
    if (file == environment.end() || file->second.empty()) return;
    const Json extra = {{"py_callstack", message}, {"timestamp", std::to_string(std::time(nullptr))}};
    const Json error = {{"message", {{"message", message}, {"extraInfo", extra}}}};
    replace_file(file->second, error.dump(-1, ' ', false, Json::error_handler_t::replace));
  } catch (const std::exception&) {  // the agent is gone, for instance
  }
}

std::int64_t agents_of_torchrun(Reader& reader) {
  return reader.number("GROUP_WORLD_SIZE", {1, kMostRanks}).value_or(1);
}

}  // namespace lockstep::launch
