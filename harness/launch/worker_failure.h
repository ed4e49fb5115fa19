#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "harness/base/json.h"

namespace lockstep::launch {

/// Reason of a rank's failure, which it writes to a file for the supervisor.
struct WorkerFailure {
  std::string what;
  std::string where;
  bool damaged = false;         ///< a file that lockstep wrote is damaged
  bool missing = false;         ///< `where` is a missing file
  std::int64_t at_ns = 0;       ///< when it was reported, since the epoch; 0: not reported
  std::string nccl_interfaces;  ///< NCCL_SOCKET_IFNAME as the process had it, which NCCL's errors do not quote

  bool operator==(const WorkerFailure&) const = default;
};

/// File of one rank in the directory of its run: "rank3.failure.json".
std::filesystem::path failure_path(const std::filesystem::path& run_directory, std::int64_t rank);

/// File of the command that starts the ranks itself.
std::filesystem::path command_failure_path(const std::filesystem::path& run_directory);

/// A failure as JSON, and back. *Throws*: Json::exception.
Json json_of(const WorkerFailure& failure);
WorkerFailure failure_from(const Json& json);

/// Called in the rank. A failed write is ignored: the exit code says enough.
void write_failure(const std::filesystem::path& path, const WorkerFailure& failure) noexcept;

/// Called in the supervisor. Nothing if the file is missing or invalid.
std::optional<WorkerFailure> read_failure(const std::filesystem::path& path);

}  // namespace lockstep::launch
