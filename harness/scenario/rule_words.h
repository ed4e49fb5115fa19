#pragma once

#include <string>

#include "harness/base/json.h"

namespace lockstep::scenario {

/// A value as a message shows it: JSON of at most 60 bytes.
std::string shortened(const Json& value);

/// Describes what the schema expects at one place.
std::string expectation(const Json& rule);

/// Describes how a value breaks a rule.
std::string fault_of(const Json& value, const Json& rule);

}  // namespace lockstep::scenario
