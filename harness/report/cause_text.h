#pragma once

#include <string>

#include "harness/diagnosis/causes.h"

namespace lockstep::report {

/// One cause: what is wrong, what helps, where it was seen.
std::string to_text(const diagnosis::Cause& cause);

/// Ids, classes and sentences of all causes.
std::string list_of_causes();

/// docs/causes.md.
std::string markdown_of_causes();

}  // namespace lockstep::report
