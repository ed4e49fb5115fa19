#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::launch {

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

/// The place that this process's environment tells, by the first kind of environment whose variable is set: one file of
/// place/ and one row of its table (place.cpp) for each kind.
/// *Throws*: InputError that names the variable, when one is missing, no number, or contradicts another.
Place place_from_environment();

}  // namespace lockstep::launch
