#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train/sampler/sampler.h"

namespace lockstep::train {

/// Position of a rank in its data.
struct LoaderPosition {
  std::int64_t epoch = -1;    ///< −1: nothing taken yet
  std::int64_t position = 0;  ///< samples taken in this epoch
  std::int64_t batches = 0;   ///< micro-batches taken before this epoch
  bool ended = false;         ///< the epoch has no more samples
  at::Tensor sampler_rng;     ///< state of the sampler's own generator, if it has one
  at::Tensor epoch_rng;       ///< state of the default generator when the epoch began
};

/// Micro-batches of sample ids, epoch after epoch. The last one of an epoch may be short, or is dropped.
/// *Source*: torch.utils.data.DataLoader with num_workers = 0, PyTorch 2.11: each epoch draws one int64 from the
/// default generator before the sampler draws its own.
class Loader {
 public:
  /// *Throws*: InputError if this rank gets no samples.
  Loader(std::unique_ptr<Sampler> sampler, std::int64_t micro_batch, std::int64_t world_size, bool drop_last = false);

  /// Ids of the next micro-batch.
  std::vector<std::int64_t> next();

  /// Size of a future micro-batch; `ahead` is 0 for the next one.
  std::int64_t size_of(std::int64_t ahead) const;

  /// Number of micro-batches in `samples` samples of one epoch.
  std::int64_t batches_in(std::int64_t samples) const { return (samples + micro_batch_ - 1) / micro_batch_; }

  std::int64_t batches_per_epoch() const { return batches_in(size_); }

  /// Micro-batches until an epoch ends; none are left of one that has ended.
  std::int64_t batches_left() const { return at_.epoch < 0 ? batches_per_epoch() : batches_in(size_ - at_.position); }

  const LoaderPosition& position() const { return at_; }

  /// Whether the last batch was the last one of its epoch.
  bool at_epoch_end() const { return at_.epoch >= 0 && at_.position >= size_; }

  /// Samples per rank that correspond to `saved`, the position of a run with `world_size` ranks.
  std::int64_t samples_taken(const LoaderPosition& saved, std::int64_t world_size) const;

  /// As `Sampler::rows_before`.
  std::int64_t rows_before(std::int64_t rows) const { return sampler_->rows_before(rows); }

  /// Number of finished epochs.
  std::int64_t epochs_finished() const;

  /// Makes the draws that Python makes when it creates the loader. Call once, when the model is created.
  void prepare() { sampler_->prepare(); }

  /// Goes to a saved position and makes the draws of that epoch's start. `world_size`: of the run that saved it.
  /// *Throws*: InputError if the epoch has fewer samples, if the sampler's order cannot be restored, or if the position
  /// does not exist at this world size.
  void restore(LoaderPosition saved, std::int64_t world_size);

  /// Makes the next batch the first one of this epoch. `batches`: number of micro-batches taken before.
  void restart(std::int64_t epoch, std::int64_t batches);

 private:
  void begin_epoch(std::int64_t epoch, std::int64_t batches);
  std::optional<std::int64_t> position_behind(const LoaderPosition& saved, std::int64_t world_size) const;

  std::unique_ptr<Sampler> sampler_;
  std::int64_t micro_batch_;
  std::int64_t world_size_;
  std::int64_t size_;  ///< samples that this rank takes in an epoch
  std::vector<std::int64_t> order_;
  LoaderPosition at_;
};

}  // namespace lockstep::train
