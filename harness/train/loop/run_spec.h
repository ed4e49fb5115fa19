#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "harness/base/json.h"
#include "harness/recipe/train_spec.h"

namespace lockstep::train {

/// Complete description of what one worker computes.
struct RunSpec {
  std::string scenario;
  std::string variant;
  std::string train_digest;
  std::int64_t repeat = 0;
  std::int64_t world_size = 1;
  recipe::TrainSpec train;                ///< data files are absolute paths
  std::filesystem::path weights_file;     ///< file of weights to load; empty: none
  std::filesystem::path checkpoint_from;  ///< folder to load a checkpoint from; empty: none
  std::filesystem::path followed;         ///< folder of the checkpoints to follow (teacher forcing); empty: none
  std::int64_t followed_after = 0;        ///< number of updates before the first followed checkpoint
};

/// Reads a RunSpec file. Relative paths in it start at its own folder.
/// *Throws*: InputError if it is not a RunSpec, or if another build of lockstep wrote it.
RunSpec read_run_spec(const std::filesystem::path& file);

}  // namespace lockstep::train
