#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/trace/trace.h"

namespace lockstep::trace {

/// Treatment of a line whose checksum does not match.
enum class Damage {
  kRefuse,  ///< throw; evidence is evidence only when it is whole
  kReport,  ///< note it in `Trace::damage` and go on if the line can still be understood: for goldens, where the
            ///< first thing a person wants to know is which tensor the damage concerns
};

/// Reads the trace of one rank.
///
/// A torn tail (a line without its newline, or no closing line) is readable up to the tear: `complete` is false then
/// and `torn` says what is missing. So is a trace beside "rank3.refused": a second process trained as rank 3, and which
/// is meant is unknown. Any other damage is an error. *Throws*: InputError (missing, not a trace), DamagedFile that
/// names the line.
Trace read_trace(const std::filesystem::path& path, Damage damage = Damage::kRefuse);

/// Reads rank0.jsonl, rank1.jsonl, … of one run.
/// *Throws*: as read_trace, also when there is no rank 0: it is no run then; DamagedFile when another rank is missing
/// there is one too many, or the files do not belong together.
RunTrace read_run(const std::filesystem::path& directory, const std::string& run, Damage damage = Damage::kRefuse);

/// Folders of the starts of one command, in order: its own, then restart1, restart2, … where torchrun started the ranks
/// again. Each is a run of its own; the first may hold none.
std::vector<std::filesystem::path> starts_in(const std::filesystem::path& directory);

/// File of one rank in the directory of its run: "rank3.jsonl".
std::string file_name_of_rank(std::int64_t rank);

}  // namespace lockstep::trace
