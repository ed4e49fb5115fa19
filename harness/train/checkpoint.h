#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train/ddp.h"
#include "harness/train/learning_rates.h"
#include "harness/train/loader.h"
#include "harness/train/optimizer.h"

namespace lockstep::train {

/// Everything a training needs to go on as if it had never stopped.
struct Checkpoint {
  std::filesystem::path origin;  ///< folder or file that it was loaded from
  std::int64_t world_size = 1;
  std::int64_t updates = 0;        ///< updates done
  std::int64_t samples_taken = 0;  ///< by each rank
  std::int64_t skipped = 0;        ///< updates, because of gradients that were not finite
  LearningRates::State rates;      ///< for the next update
  LoaderPosition position;
  BucketLayout buckets;
  std::vector<NamedTensor> weights;  ///< parameters, then buffers
  scenario::Choice recipe;           ///< the optimizer that saved, with its hyperparameters
  std::vector<NamedTensor> optimizer;
  std::vector<NamedTensor> ema;      ///< averaged weights, where there are any
  std::vector<NamedTensor> buffers;  ///< of this rank; those among the weights are rank 0's
  at::Tensor rng;                    ///< state of this rank's default generator
  at::Tensor device_rng;             ///< state of the device's own; undefined where it has none
};

/// Saves: rank 0 writes the weights, the optimizer's state and state.json; every rank its own generators and buffers.
/// state.json comes last, names the hash of every other file and its own, and alone makes the folder a checkpoint. Call
/// on every rank; `collective` keeps them together. *Throws*: ResourceError.
void save_checkpoint(const std::filesystem::path& folder, const Checkpoint& checkpoint, std::int64_t rank,
                     Collective& collective);

/// Loads what `save_checkpoint` wrote, for one rank; at another world size without what is each rank's own.
/// *Throws*: InputError when the world size differs while `per_rank` (generators, buckets, buffers) is asked for;
/// DamagedFile that names a file which is missing, does not have its hash, or holds what no save can have written.
Checkpoint load_checkpoint(const std::filesystem::path& folder, std::int64_t rank, std::int64_t world_size,
                           bool per_rank);

/// In the precision of the training that loads it, as torch's load_state_dict does; counters of updates have one of
/// their own.
Checkpoint in_precision(Checkpoint checkpoint, at::ScalarType precision);

/// Weights from a safetensors file, or from one of Python's torch.save, whichever it is.
/// *Throws*: as read_torch_file.
std::vector<NamedTensor> read_weights(const std::filesystem::path& file);

/// Writes weights to a safetensors file. *Throws*: ResourceError.
void write_weights(const std::filesystem::path& file, const std::vector<NamedTensor>& weights);

/// Runs what takes something from the checkpoint. *Throws*: as `take` does; an InputError names the checkpoint too.
void take_from(const Checkpoint& checkpoint, const std::function<void()>& take);

/// Copies each saved tensor into the model's of its name. *Throws*: InputError that names what is unknown or misfits.
void copy_weights(const std::vector<NamedTensor>& saved, const std::vector<NamedTensor>& model);

}  // namespace lockstep::train
