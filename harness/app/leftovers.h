#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/launch/descriptor.h"

/// Temporary folders of traces, and what is left of them. One is ours if it is named lockstep-XXXXXX, belongs to this
/// user and holds the marker file; it is in use while a living process holds the lock on that file.
namespace lockstep::app {

/// Leftovers are removed when they are older than this.
constexpr double kLongestKept_days = 7;
/// The oldest go first where all of them take more. *Units*: bytes.
constexpr std::uintmax_t kMostKept = std::uintmax_t{4} << 30;

/// Where temporary folders go: $TMPDIR, else /tmp.
std::filesystem::path temporary_base();

/// A new temporary folder, marked as ours.
struct TemporaryFolder {
  std::filesystem::path path;
  launch::Descriptor lock;  ///< in use until this is closed, or the process dies
};

/// *Throws*: ResourceError.
TemporaryFolder make_temporary_folder();

/// A folder that a red or killed run has left.
struct Leftover {
  std::filesystem::path path;
  double age_days = 0;
  std::uintmax_t bytes = 0;
};

/// Those that no living process uses, the oldest first.
std::vector<Leftover> leftovers();

/// Removes what is too old, or too much. Failures are ignored: who comes next tries again.
void sweep_leftovers();

}  // namespace lockstep::app
