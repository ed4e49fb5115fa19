#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/checks/check.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::judge {

/// File of a recorded command in the folder of its traces: the command, and its exit code.
inline constexpr const char* kCommandFile = "command.json";

/// A run as its folder holds it: the traces of its ranks, and what its run.json promises of it.
struct Recording {
  std::filesystem::path folder;
  trace::RunTrace trace;
  std::optional<scenario::Promises> promises;
  std::string failed;                 ///< how its command failed, whatever its traces say; empty: it did not
  std::string no_promises;            ///< why there are none: a foreign program, a trace file alone, another version
  std::filesystem::path loaded_from;  ///< folder of the run whose checkpoint it took; empty: none, or it is gone
};

/// How a recorded command failed, whatever its traces say; empty: it did not, or there is no such file.
/// *Throws*: InputError if `file` cannot be read.
std::string failure_of_command(const std::filesystem::path& file);

/// Reads a run's folder, or the trace of one rank. *Throws*: InputError, DamagedFile: as trace::read_run.
Recording read_recording(const std::filesystem::path& path);

/// Lets one of two recordings of programs go on from the other, where it begins with weights that the other has after
/// an update, or with a checkpoint that the other wrote. Returns a sentence on that; empty: they begin alike, or apart.
std::string connect(Recording& left, Recording& right);

/// A recorded run, and what is known of it. *Lifetime*: of both.
struct Recorded {
  const trace::RunTrace* trace = nullptr;
  const scenario::Promises* promises = nullptr;
};

/// Holds two recorded runs against each other as a check of a scenario would, and names causes: the first difference
/// that rounding does not explain, else the first difference. A resumed run is compared with an uninterrupted one, and
/// a repeat with another one.
///
/// `channels`: empty: all that both record. `source`: the run whose checkpoint one of the two took, where it
/// is there. Only bits that agree everywhere are agreement.
checks::CheckResult judge_pair(const Recorded& left, const Recorded& right, const std::vector<trace::Channel>& channels,
                               const std::optional<Recorded>& source = std::nullopt);

}  // namespace lockstep::judge
