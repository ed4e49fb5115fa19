#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/base/attendance_file.h"  // kRunIdVariable

namespace lockstep::launch {

/// Environment variables by name.
using Environment = std::map<std::string, std::string>;

/// Environment of this process.
Environment whole_environment();

/// The same, without variables that an outer lockstep set for it alone.
Environment inherited_environment();

/// "NAME=value".
std::string environment_entry(const std::string& name, const std::string& value);

/// "NAME=value" for each variable, in ascending or descending order of names.
std::vector<std::string> environment_block(const Environment& environment, bool descending);

}  // namespace lockstep::launch
