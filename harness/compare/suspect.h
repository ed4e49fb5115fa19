#pragma once

#include <string>
#include <vector>

namespace lockstep::compare {

/// A possible cause and the evidence for it.
struct Suspect {
  std::string cause;  ///< id of the cause
  std::vector<std::string> evidence;

  bool operator==(const Suspect&) const = default;
};

}  // namespace lockstep::compare
