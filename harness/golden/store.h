#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::golden {

/// Class of processors that a golden holds for: "portable", "portable-v1", or "native-avx512" and the like.
std::string key_of(const trace::RunTrace& run);

/// Folder of one golden: <root>/<scenario>/<key>/<variant>, with one trace file for each rank.
std::filesystem::path golden_directory(const std::filesystem::path& root, const std::string& scenario,
                                       const std::string& key, const std::string& variant);

/// Reads a golden; nothing if there is none.
/// *Throws*: DamagedFile if it cannot be parsed. Lines that only fail their checksum go to `Trace::damage`.
std::optional<trace::RunTrace> read_golden(const std::filesystem::path& directory);

/// Damage of a golden's files, each with its place; empty if there is none.
std::vector<std::string> damage_of(const trace::RunTrace& golden);

/// Origin of a golden; stored in its first line.
struct Provenance {
  std::string reason;
  std::string date;  ///< "2027-01-31"
  Json train;        ///< its recipe with all defaults filled in
};

/// Result of an acceptance.
enum class Accepted { kNew, kChanged, kUnchanged };

/// Writes the first of `repeats` as golden, without sketches. The old golden stays intact until the new one is
/// complete.
/// *Throws*: InputError unless there are at least two repeats, all complete and bitwise equal; ResourceError.
Accepted accept(const std::filesystem::path& directory, const std::vector<trace::RunTrace>& repeats,
                const Provenance& provenance);

}  // namespace lockstep::golden
