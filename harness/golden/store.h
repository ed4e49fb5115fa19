#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::golden {

/// Processors that a golden speaks for: "portable", "portable-v1", or "native-avx512" and the like.
std::string key_of(const trace::RunTrace& run);

/// Folder of one golden: <root>/<scenario>/<key>/<variant>, with one trace file for each rank.
std::filesystem::path golden_directory(const std::filesystem::path& root, const std::string& scenario,
                                       const std::string& key, const std::string& variant);

/// Reads an accepted trace; nothing when there is none.
/// *Throws*: DamagedFile when it cannot be understood. Lines that merely fail their check are noted in `Trace::damage`.
std::optional<trace::RunTrace> read_golden(const std::filesystem::path& directory);

/// What is wrong with a golden's files, each with its place; empty: they are whole.
std::vector<std::string> damage_of(const trace::RunTrace& golden);

/// Why a golden was accepted; goes into its first line.
struct Provenance {
  std::string reason;
  std::string date;  ///< "2027-01-31"
  Json train;        ///< what it computes, completed
};

/// What became of an acceptance.
enum class Accepted { kNew, kChanged, kUnchanged };

/// Writes the first of `repeats` as golden, without sketches; the old golden stays whole until the new one is.
/// *Throws*: InputError unless there are two repeats or more, all complete and bitwise equal; ResourceError.
Accepted accept(const std::filesystem::path& directory, const std::vector<trace::RunTrace>& repeats,
                const Provenance& provenance);

}  // namespace lockstep::golden
