#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::launch {

/// Environment variables by name.
using Environment = std::map<std::string, std::string>;

/// A rank's place in its run, as its launcher told it.
struct Place {
  std::int64_t rank = 0;
  std::int64_t local_rank = 0;
  std::int64_t world_size = 1;
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::optional<int> listen_descriptor;      ///< rank 0 only: socket that listens on `master_port` already
  std::optional<int> supervisor_descriptor;  ///< pipe whose other end closes when lockstep dies
  std::int64_t step_delay_ms = 0;            ///< pause before the backward pass of every micro-batch

  bool operator==(const Place&) const = default;
};

/// Reads RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, LOCKSTEP_LISTEN_FD, LOCKSTEP_SUPERVISOR_FD and
/// LOCKSTEP_STEP_DELAY_MS.
///
/// RANK and WORLD_SIZE are required; LOCAL_RANK is RANK unless given, MASTER_ADDR is 127.0.0.1; MASTER_PORT is required
/// when there is more than one rank.
/// *Throws*: InputError that names the variable, when one is missing, no number, or contradicts another.
Place place_from_environment();

/// What `place_from_environment` reads, and LOCAL_WORLD_SIZE, for a run whose ranks are all on this machine.
Environment variables_of(const Place& place);

/// The environment of this process, without what an outer lockstep said to it alone.
Environment inherited_environment();

/// "NAME=value" for each variable, in ascending or descending order of names.
std::vector<std::string> environment_block(const Environment& environment, bool descending);

}  // namespace lockstep::launch
