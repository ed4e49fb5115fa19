#pragma once

#include <cstdint>

namespace lockstep::launch {

/// Memory that new processes can take: what the kernel calls available, and no more than this process's control group
/// has left. The largest number where the system does not say. *Units*: bytes.
std::uintmax_t available_memory();

}  // namespace lockstep::launch
