#pragma once

#include <map>
#include <string>
#include <vector>

namespace lockstep::launch {

/// Environment variables by name.
using Environment = std::map<std::string, std::string>;

/// Environment of this process, without variables that an outer lockstep set for it alone.
Environment inherited_environment();

/// "NAME=value" for each variable, in ascending or descending order of names.
std::vector<std::string> environment_block(const Environment& environment, bool descending);

}  // namespace lockstep::launch
