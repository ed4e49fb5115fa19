#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/trace/trace.h"

namespace lockstep::trace {

/// SHA-256 of each module that a program imported from its own folders, by its path from where it was started. None of
/// a run of the worker.
std::map<std::string, std::string> own_modules(const RunTrace& run);

/// Paths of modules that both runs imported and whose contents differ, or that one imported alone. None where a
/// recorder of one of them listed none.
std::vector<std::string> modules_that_differ(const RunTrace& left, const RunTrace& right);

}  // namespace lockstep::trace
