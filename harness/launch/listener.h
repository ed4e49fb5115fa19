#pragma once

#include <cstdint>
#include <string>

#include "harness/launch/descriptor.h"

namespace lockstep::launch {

/// A socket that listens on a free port of 127.0.0.1, chosen by the system. Ports cannot clash, and no rank can connect
/// too early.
struct Listener {
  Descriptor socket;  ///< blocking, closed on exec
  std::uint16_t port = 0;
};

/// *Throws*: ResourceError.
Listener listen_on_loopback(int backlog);

/// A port without a listener on this machine, for a store that begins later. It lies below those that the system
/// gives to connections. Different seeds, such as the numbers of a scheduler's jobs, give different ports, as long as
/// these are free. *Throws*: ResourceError if none is.
std::uint16_t free_port(std::uint64_t seed);

/// Whether somebody accepts connections there, within a few seconds. True if unknown.
bool listens(const std::string& host, std::uint16_t port);

}  // namespace lockstep::launch
