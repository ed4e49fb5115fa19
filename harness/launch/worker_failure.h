#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::launch {

/// Why a rank gave up, as it wrote it down for the supervisor.
struct WorkerFailure {
  std::string what;
  std::string where;
  bool damaged = false;  ///< a file that lockstep wrote cannot be trusted
  bool missing = false;  ///< `where` is a file that was not there

  bool operator==(const WorkerFailure&) const = default;
};

/// File of one rank in the directory of its run: "rank3.failure.json".
std::filesystem::path failure_path(const std::filesystem::path& run_directory, std::int64_t rank);

/// The rank's side. A file that cannot be written is not: the exit code says enough.
void write_failure(const std::filesystem::path& path, const WorkerFailure& failure) noexcept;

/// The supervisor's side. Nothing where the file is missing or no such thing.
std::optional<WorkerFailure> read_failure(const std::filesystem::path& path);

}  // namespace lockstep::launch
