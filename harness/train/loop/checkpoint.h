#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train/ddp/ddp.h"
#include "harness/train/loop/learning_rates.h"
#include "harness/train/loop/loader.h"
#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {

/// State that a training needs to resume as if it had never stopped.
struct Checkpoint {
  std::filesystem::path origin;  ///< folder or file it was loaded from
  std::int64_t world_size = 1;
  std::int64_t updates = 0;        ///< updates done
  std::int64_t samples_taken = 0;  ///< by each rank
  std::int64_t skipped = 0;        ///< updates skipped because gradients were not finite
  LearningRates::State rates;      ///< for the next update
  LoaderPosition position;
  BucketLayout buckets;
  std::vector<NamedTensor> weights;  ///< parameters, then buffers
  recipe::OptimizerChoice recipe;    ///< the optimizer that saved, with its hyperparameters
  std::vector<NamedTensor> optimizer;
  std::vector<NamedTensor> ema;      ///< averaged weights, if any
  std::vector<NamedTensor> buffers;  ///< of this rank; `weights` holds rank 0's
  at::Tensor rng;                    ///< state of this rank's default generator
  at::Tensor device_rng;             ///< state of the device's generator; undefined if it has none
};

/// Saves a checkpoint. Rank 0 writes the weights, the optimizer state and state.json; every rank writes its own
/// generators and buffers. state.json comes last and holds the hashes of all files; without it the folder is no
/// checkpoint. Call on every rank; `collective` synchronizes them.
/// *Throws*: ResourceError.
void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint, std::int64_t rank,
                     Collective& collective);

/// Loads a checkpoint for one rank. `per_rank`: also each rank's generators, buckets and buffers, which needs the same
/// world size.
/// *Throws*: InputError if `per_rank` is set and the world size differs; DamagedFile that names a file which is
/// missing, has a wrong hash, or has invalid content.
Checkpoint load_checkpoint(const std::filesystem::path& folder, std::int64_t rank, std::int64_t world_size,
                           bool per_rank);

/// Converts a checkpoint to the loading training's precision, as torch's load_state_dict does. Update counters keep
/// theirs.
Checkpoint in_precision(Checkpoint checkpoint, at::ScalarType precision);

/// Reads weights from a safetensors file or a file of Python's torch.save; of the latter only those under this key.
/// *Throws*: as format_of_weights and read_torch_file.
std::vector<NamedTensor> read_weights(const std::filesystem::path& file, const std::string& under = "");

/// Writes weights to a safetensors file. *Throws*: ResourceError.
void write_weights(const std::filesystem::path& file, const std::vector<NamedTensor>& weights);

/// Calls `take`, which reads from the checkpoint.
/// *Throws*: as `take` does; an InputError also names the checkpoint.
void take_from(const Checkpoint& checkpoint, const std::function<void()>& take);

/// Copies each saved tensor into the model's tensor of that name.
/// *Throws*: InputError that names an unknown tensor or a wrong shape.
void copy_weights(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& model);

}  // namespace lockstep::train
