#pragma once

#include <cstdint>

namespace lockstep::launch {

/// Memory that new processes can use: the kernel's MemAvailable, limited by this process's control group. The largest
/// number if unknown. *Units*: bytes.
std::uintmax_t available_memory();

}  // namespace lockstep::launch
