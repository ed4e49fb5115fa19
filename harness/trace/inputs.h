#pragma once

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "harness/base/json.h"

namespace lockstep::trace {

/// Files that a command names and that its ranks wrote before any of them read them, as their recorders wrote in
/// files.rank<rank>.json beside the traces.
/// *Throws*: DamagedFile.
std::set<std::string> written_files(const std::filesystem::path& run, std::int64_t world_size);

/// SHA-256 of each file that a command names, as a trace's first line has it, without those that the run wrote.
Json inputs_in(const Json& header, const std::set<std::string>& written);

}  // namespace lockstep::trace
