#pragma once

#include <string>

#include "harness/record/include/lockstep/recorder.h"

namespace lockstep::record {

/// Short enough to be stored where there is no memory.
inline constexpr const char* kNoMemory = "out of memory";

/// To be called where an exception is handled: what it says in C, and in `text` for people. `where` completes a message
/// that names no place.
lockstep_status status_of_exception(const std::string& where, std::string& text) noexcept;

}  // namespace lockstep::record
