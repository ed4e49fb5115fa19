#pragma once

#include <string>

/// The machine as runs find it, for `lockstep doctor`. Each function gives one line: what is there, and what that
/// means.
namespace lockstep::app {

/// Processors: how many this process may use, their model, and the vector instructions that choose kernels.
std::string examine_processors();

/// GPUs and the processes on them, by nvidia-smi. *Throws*: ResourceError if nvidia-smi is there and fails.
std::string examine_gpus();

/// Network interfaces. *Throws*: InputError as launch::require_interfaces.
std::string examine_interfaces();

/// Sockets of runs that are going on which anybody in the network can reach, and who opens such.
std::string examine_sockets();

/// Launchers in PATH, with their versions.
std::string examine_launchers_in_path();

/// Limits of this process. *Throws*: ResourceError where a run of usual size would meet one.
std::string examine_limits();

}  // namespace lockstep::app
