#pragma once

#include <string>
#include <vector>

namespace lockstep::compare {

/// A cause, and why it is thought to be the one.
struct Suspect {
  std::string cause;  ///< its id
  std::vector<std::string> evidence;

  bool operator==(const Suspect&) const = default;
};

}  // namespace lockstep::compare
