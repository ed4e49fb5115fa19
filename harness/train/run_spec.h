#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "harness/base/json.h"
#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// What one worker is told: everything that it computes.
struct RunSpec {
  std::string scenario;
  std::string variant;
  std::string train_digest;
  std::int64_t world_size = 1;
  scenario::TrainSpec train;              ///< files of its data are absolute
  std::filesystem::path weights_file;     ///< to load; empty: none
  std::filesystem::path checkpoint_from;  ///< folder to load from; empty when nothing is loaded
  std::filesystem::path followed;         ///< folder of the checkpoints to follow; empty when none is followed
  std::int64_t followed_after = 0;        ///< updates that were done before the first one that is followed
};

/// Reads a RunSpec file. Relative paths in it start at its own folder.
/// *Throws*: InputError when it is no RunSpec, or was written by another build of lockstep.
RunSpec read_run_spec(const std::filesystem::path& file);

}  // namespace lockstep::train
