#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train/sampler.h"

namespace lockstep::train {

/// Where a rank is in its data.
struct LoaderPosition {
  std::int64_t epoch = -1;    ///< −1: nothing taken yet
  std::int64_t position = 0;  ///< samples taken in this epoch
  std::int64_t batches = 0;   ///< micro-batches taken before this epoch
  bool ended = false;         ///< the epoch has no more samples
  at::Tensor sampler_rng;     ///< the sampler's own, where it has one
  at::Tensor epoch_rng;       ///< state of the default generator when the epoch began
};

/// Micro-batches of sample ids, epoch after epoch; the last one of an epoch may be short, or is dropped.
/// *Source*: torch.utils.data.DataLoader with num_workers = 0, PyTorch 2.11: each epoch draws one int64 from the
/// default generator before the sampler draws its own.
class Loader {
 public:
  /// *Throws*: InputError when this rank gets no samples at all.
  Loader(std::unique_ptr<Sampler> sampler, std::int64_t micro_batch, std::int64_t world_size, bool drop_last = false);

  /// Ids of the next micro-batch.
  std::vector<std::int64_t> next();

  /// Size of a micro-batch to come; the next one has 0 `ahead`.
  std::int64_t size_of(std::int64_t ahead) const;

  /// Micro-batches that so many samples of one epoch make.
  std::int64_t batches_in(std::int64_t samples) const { return (samples + micro_batch_ - 1) / micro_batch_; }

  std::int64_t batches_per_epoch() const { return batches_in(size_); }

  const LoaderPosition& position() const { return at_; }

  /// Whether the last batch was the last one of its epoch.
  bool at_epoch_end() const { return at_.epoch >= 0 && at_.position >= size_; }

  /// Samples that each of this many ranks would have taken where another number of ranks was at `saved`.
  std::int64_t samples_taken(const LoaderPosition& saved, std::int64_t world_size) const;

  /// As `Sampler::rows_before`.
  std::int64_t rows_before(std::int64_t rows) const { return sampler_->rows_before(rows); }

  /// Epochs whose last sample is taken.
  std::int64_t epochs_finished() const;

  /// Draws what making the loader draws; once, when the model is made.
  void prepare() { sampler_->prepare(); }

  /// Goes to a saved position, where `world_size` is that of the run that saved it; draws what beginning that epoch
  /// draws. *Throws*: InputError when the epoch has fewer samples, the sampler's order cannot be had again, or the
  /// position is none at this world size.
  void restore(LoaderPosition saved, std::int64_t world_size);

  /// The next batch will be the first one of this epoch. `batches`: micro-batches taken before it.
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
