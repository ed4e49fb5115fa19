#pragma once

#include <optional>
#include <string>

#include "harness/base/json.h"

namespace lockstep::trace {

/// A key of a trace's first line whose value readers cannot use.
struct HeaderFault {
  std::string key;
  std::string expected;  ///< "a string"
};

/// The first key that has a meaning for readers and a value of another type. Other keys may hold anything.
std::optional<HeaderFault> fault_of_header(const Json& header);

}  // namespace lockstep::trace
