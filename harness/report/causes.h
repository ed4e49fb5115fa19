#pragma once

#include <string>

#include "harness/compare/causes.h"

namespace lockstep::report {

/// One cause: what is wrong, what helps, where it was seen.
std::string to_text(const compare::Cause& cause);

/// Ids, classes and sentences of all causes.
std::string list_of_causes();

/// docs/causes.md.
std::string markdown_of_causes();

}  // namespace lockstep::report
