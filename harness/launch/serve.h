#pragma once

namespace lockstep::launch {

/// The flag of a program that serves: "--serve SOCKET".
constexpr const char* kServeFlag = "--serve";

/// Forks ranks on request (fork_server.h) until the other end of `socket` is closed. The caller must not have started a
/// thread, nor run anything that a rank decides for itself.
///
/// *Returns*: in each rank, the exit code of `rank`, called with its arguments, in its environment; in the server, 0.
int serve(int socket, int (*rank)(int argc, char** argv));

}  // namespace lockstep::launch
