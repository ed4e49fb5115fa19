#pragma once

namespace lockstep::app {

/// Parses the command line and runs the command that it names. Returns the process exit code; every error is one line
/// or page on stderr. `version`: of this program.
int run_command_line(int argc, char** argv, const char* version);

}  // namespace lockstep::app
