#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train/data/data.h"

namespace lockstep::train {

/// Input of one forward pass.
struct MicroBatch : Samples {
  std::string suffix;  ///< of its records' names: "" or, of several in an update, ".k"
  bool first = false;  ///< of its update
  bool last = false;   ///< of its update
};

/// Micro-batches of one update, and their results.
struct Batch {
  std::vector<std::int64_t> ids;
  std::int64_t epochs_before_last = 0;  ///< finished before the last micro-batch
  std::int64_t targets = 0;             ///< of this rank
  std::int64_t targets_of_world = 0;    ///< of all ranks, where the loss is averaged over them
  at::Tensor loss, last_loss;           ///< of all micro-batches together, and of the last
  std::int64_t gradients_left = 0;      ///< that nobody cleared before the first backward pass
  bool trains = true;                   ///< the model was in training mode in all forward passes
  double reduced_loss = 0;              ///< its mean over the ranks, where somebody wants it
};

}  // namespace lockstep::train
