#pragma once

#include <string>

#include "harness/base/json.h"

namespace lockstep::scenario {

/// A value as a message shows it: JSON of at most 60 bytes.
std::string shortened(const Json& value);

/// What the schema asks for at one place, in words.
std::string expectation(const Json& rule);

/// What is wrong with a value that breaks a rule, in words.
std::string fault_of(const Json& value, const Json& rule);

}  // namespace lockstep::scenario
