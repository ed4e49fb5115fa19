#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train/sampler.h"

namespace lockstep::train {

/// Where a rank is in its data.
struct LoaderPosition {
  std::int64_t epoch = -1;    ///< −1: nothing taken yet
  std::int64_t position = 0;  ///< samples taken in this epoch
  at::Tensor epoch_rng;       ///< state of the default generator when the epoch began
};

/// Micro-batches of sample ids, epoch after epoch; the last one of an epoch may be short.
/// *Source*: torch.utils.data.DataLoader with num_workers = 0, PyTorch 2.11: each epoch draws one int64 from the
/// default generator before the sampler draws its own.
class Loader {
 public:
  /// *Throws*: InputError when this rank gets no samples at all.
  Loader(std::unique_ptr<Sampler> sampler, std::int64_t micro_batch);

  /// Ids of the next micro-batch.
  std::vector<std::int64_t> next();

  /// Size of a micro-batch to come; the next one has 0 `ahead`.
  std::int64_t size_of(std::int64_t ahead) const;

  const LoaderPosition& position() const { return at_; }

  /// Epochs whose last sample is taken.
  std::int64_t epochs_finished() const;

  /// Goes to a saved position; draws what beginning that epoch draws.
  /// *Throws*: InputError when the epoch has fewer samples.
  void restore(std::int64_t epoch, std::int64_t position);

 private:
  void begin_epoch(std::int64_t epoch);

  std::unique_ptr<Sampler> sampler_;
  std::int64_t micro_batch_;
  std::vector<std::int64_t> order_;
  LoaderPosition at_;
};

}  // namespace lockstep::train
