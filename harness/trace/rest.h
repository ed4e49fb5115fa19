#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::trace {

/// Passes of a recorded rank after its last update, as its recorder reported beside the trace.
struct Rest {
  std::int64_t micro_batches = 0;
  std::vector<std::string> losses;    ///< digests
  std::vector<std::int64_t> samples;  ///< ids, or a number for each

  bool operator==(const Rest&) const = default;
};

/// Reads rest.rank<rank>.json of a run; nothing where the rank ended with an update.
/// *Throws*: DamagedFile.
std::optional<Rest> read_rest(const std::filesystem::path& run, std::int64_t rank);

}  // namespace lockstep::trace
