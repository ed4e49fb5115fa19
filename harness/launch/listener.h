#pragma once

#include <cstdint>

#include "harness/launch/descriptor.h"

namespace lockstep::launch {

/// A socket that listens on a port of 127.0.0.1 that the system chose: no port can be taken twice, no rank comes early.
struct Listener {
  Descriptor socket;  ///< blocking, closed on exec
  std::uint16_t port = 0;
};

/// *Throws*: ResourceError.
Listener listen_on_loopback(int backlog);

}  // namespace lockstep::launch
