#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::compare {

/// What kind of difference it is.
enum class Class {
  kSemantic,        ///< another function is computed: a bug, or another recipe
  kRounding,        ///< the same function in another order or precision
  kNondeterminism,  ///< the same program gives other bits when it runs again
  kEnvironment,     ///< machine, library or variables differ
  kLiveness,        ///< crash, hang, lost rank
  kExpected,        ///< a difference by design, that must be named
};

std::string_view name_of(Class class_);

/// A cause, and why it is thought to be the one.
struct Suspect {
  std::string cause;  ///< its id
  std::vector<std::string> evidence;

  bool operator==(const Suspect&) const = default;
};

}  // namespace lockstep::compare
