#pragma once

#include <filesystem>

namespace lockstep::app {

/// Whether this installation has a worker: the wheel lockstep alone brings none.
bool has_worker();

/// The worker to start: the one given, or that of this installation. *Throws*: InputError when there is none.
std::filesystem::path find_worker(const std::filesystem::path& given);

/// The program in site-packages (python/lockstep_worker) that a command becomes, if it is the script that pip puts
/// beside lockstep. Ranks can be forked from the program (launch/fork_server.h), and no interpreter has to start.
///
/// The command itself where it is no script, or several Pythons share its prefix: the script knows which is its own.
std::filesystem::path program_behind(const std::filesystem::path& command);

}  // namespace lockstep::app
