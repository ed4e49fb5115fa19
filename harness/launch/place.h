#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep::launch {

/// Place of a rank in its run, as its launcher set it.
struct Place {
  std::int64_t rank = 0;
  std::int64_t local_rank = 0;
  std::int64_t world_size = 1;
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 0;
  std::optional<int> listen_descriptor;      ///< only rank 0: socket that already listens on `master_port`
  std::optional<int> supervisor_descriptor;  ///< pipe whose other end closes when lockstep dies
  std::int64_t step_delay_ms = 0;            ///< pause before the backward pass of every micro-batch

  bool operator==(const Place&) const = default;
};

/// Reads the place from environment variables. Each kind of launcher has a file in place/ and a row in the table of
/// place.cpp; the first kind whose variable is set decides.
/// *Throws*: InputError that names a variable that is missing, not a number, or contradicts another.
Place place_from_environment();

}  // namespace lockstep::launch
