#pragma once

#include <filesystem>
#include <string>

#include "harness/scenario/scenario.h"

/// Looks at what recording a program of one's own needs here, for `lockstep doctor`.
namespace lockstep::app {

/// Looks for a command's program and scripts. Returns the program's file. *Throws*: InputError for what is missing.
std::filesystem::path examine_command(const scenario::Scenario& scenario, const scenario::Variant& variant);

/// "python" or "python3" in PATH; empty where neither is there.
std::filesystem::path python_in_path();

/// The Python that a program is, or that runs a script; empty for other programs, which may be in any language.
std::filesystem::path python_of(const std::filesystem::path& program);

/// "/usr/bin/python, 3.11.2, with torch 2.11.0". *Throws*: InputError where a torch in it would not be recorded.
std::string examine_python(const std::filesystem::path& python);

}  // namespace lockstep::app
