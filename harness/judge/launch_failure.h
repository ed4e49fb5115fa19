#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "harness/compare/suspect.h"
#include "harness/launch/worker_failure.h"

namespace lockstep::judge {

/// A failure as a process reported it.
struct ToldFailure {
  std::optional<std::int64_t> rank;  ///< nothing: the command that starts the ranks
  launch::WorkerFailure failure;
};

/// The cause of a launch that failed, and who met it.
struct LaunchFailure {
  compare::Suspect suspect;
  std::optional<std::int64_t> rank;  ///< as in ToldFailure
};

/// The failures that the processes of a recorded run reported in its folder.
std::vector<ToldFailure> failures_told_in(const std::filesystem::path& folder);

/// The cause of the first failure, where its exception says by itself that a port or an interface is to blame.
///
/// Nothing for any other exception, whatever it quotes, and for an earlier failure beside one of these.
/// *Source*: torch 2.11, TCPStoreLibUvBackend.cpp and socket.cpp (a server's bind), as TCPStore raises them; gloo,
/// transport/tcp/device.cc, lookupAddrForIface; NCCL, bootstrap.cc, bootstrapNetInit. There is no such row for
/// TP_SOCKET_IFNAME: TensorPipe warns, and goes on with 127.0.0.1.
std::optional<LaunchFailure> find_launch_failure(const std::vector<ToldFailure>& told);

}  // namespace lockstep::judge
