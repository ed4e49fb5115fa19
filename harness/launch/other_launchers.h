#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/launch/job.h"

/// Programs that start ranks instead of lockstep: one table of their command lines.
namespace lockstep::launch {

/// A run as a launcher's command line needs it.
struct Launch {
  std::filesystem::path program;     ///< of the launcher
  std::vector<std::string> command;  ///< of a rank
  std::int64_t world_size = 1;
  std::int64_t nodes = 1;             ///< divides `world_size`
  std::string rendezvous = "static";  ///< how agents or ranks meet; of OtherLauncher::rendezvous, or "static"
  std::int64_t restarts = 0;          ///< of all ranks, after a failure
  std::filesystem::path directory;    ///< of the run
  std::uint16_t port = 0;             ///< a free one
  std::vector<std::string> options;   ///< of the launcher, in front of the command
};

/// One launcher. Its name is that of launch.kind.
struct OtherLauncher {
  const char* name;
  const char* program;  ///< looked up in PATH; "": none is needed
  const char* package;  ///< that has it, for messages
  bool has_nodes;       ///< it can place ranks on several nodes, or pretend to
  bool may_queue;       ///< its runs may wait for others
  std::int64_t least_ranks;
  std::vector<StartCommand> (*starts)(const Launch& launch);
  const char* version;  ///< option that prints it, or, where that takes seconds, the Python package that has it
  std::vector<std::string_view> rendezvous = {};  ///< beside "static"
  bool outlives_us = false;                       ///< of Job
  bool starts_again = false;                      ///< it can start all ranks again
};

const std::vector<OtherLauncher>& other_launchers();

/// Nothing (null) for a name that is not in the table.
const OtherLauncher* find_other_launcher(std::string_view name);

/// File of a launcher's program. *Throws*: Unsupported if it is not installed.
std::filesystem::path program_of(const OtherLauncher& launcher);

/// Lets torchrun make its folders in that of the run, unless somebody has chosen another place: those that it makes in
/// the system's temporary folder stay there when it is killed. Agents read the variable, and so does a command that
/// calls torchrun.
void keep_torchrun_in(const std::filesystem::path& run, std::map<std::string, std::string>& environment);

/// Makes a job of our own a launcher's. *Throws*: InputError for a world size or a number of nodes that it cannot
/// start; Unsupported if it is not installed.
void hand_over(Job& job, const OtherLauncher& launcher, Launch launch);

}  // namespace lockstep::launch
