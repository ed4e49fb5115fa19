#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/launch/variables.h"

namespace lockstep::launch {

/// Runs a command in the place of this process, as a shell would: with its terminal, its standard streams, its folder.
/// SIGTERM goes on to the command; SIGINT reaches both from the terminal.
/// Returns its exit code; 128 + the signal that ended it.
/// *Throws*: InputError when it cannot be executed, ResourceError.
int run_in_foreground(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                      const Environment& environment);

}  // namespace lockstep::launch
