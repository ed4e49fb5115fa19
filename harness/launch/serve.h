#pragma once

#include <string>
#include <vector>

namespace lockstep::launch {

/// Whether the arguments of a program ask it to serve.
bool asked_to_serve(int argc, char** argv);

/// Forks ranks on request (fork_server.h) until the supervisor is gone. The caller must not have started a thread, nor
/// run anything that a rank decides for itself. `argv` is that of main: the system shows a rank's arguments there.
///
/// *Returns*: in each rank, the exit code of `rank`, called with its arguments, in its environment; in the server, 0.
int serve(int argc, char** argv, int (*rank)(int argc, char** argv));

/// Arguments, and the variable LOCKSTEP_RUN_ID, with which a server is started: they have room for those of its ranks.
std::vector<std::string> serving_arguments(const std::string& program, int socket);
std::string serving_run_id();

}  // namespace lockstep::launch
