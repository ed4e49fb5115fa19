#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/descriptor.h"
#include "harness/launch/process.h"

namespace lockstep::launch {

/// Time for somebody who has stopped a server to let it go on.
constexpr std::chrono::milliseconds kStoppedServerLimit{5000};

/// Whether a file is a program that ranks can be forked from. A script may do something else for each rank.
bool is_binary(const std::filesystem::path& program);

/// Processes that have loaded a program and fork it on request (serve.h): a rank begins in milliseconds, while loading
/// LibTorch takes 0.2 s.
///
/// A server has run nothing but the initializers of its libraries, in the environment that its ranks get, apart from
/// their place. So a forked rank computes what an executed one does. It becomes a child of this process, which must be
/// a subreaper (OrphanKeeper), and is supervised like any other.
///
/// A server that is stopped (SIGSTOP) for longer than a limit is left: its ranks are executed.
///
/// Used by one thread. The servers end with this object or that thread.
class ForkServers {
 public:
  explicit ForkServers(std::chrono::milliseconds stopped_limit = kStoppedServerLimit) : stopped_limit_(stopped_limit) {}

  /// Forks a process that is as Process(command) would make it. Nothing if the program is a script, does not serve, or
  /// its server failed: then it must be executed. Processes of different groups have different servers, and so other
  /// addresses.
  std::optional<Process> fork(const Process::Command& command, std::int64_t group);

 private:
  struct Server {
    std::int64_t group;
    std::vector<std::string> key;    ///< program, and environment without a rank's place
    std::optional<Process> process;  ///< nothing: it does not serve
    Descriptor socket;
    bool has_served = false;
  };

  Server& server_for(const Process::Command& command, std::int64_t group);

  std::chrono::milliseconds stopped_limit_;
  std::list<Server> servers_;  ///< the one used last comes first
};

}  // namespace lockstep::launch
