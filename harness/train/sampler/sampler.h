#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Generator.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "harness/recipe/train_spec.h"

namespace lockstep::train {

/// Share of a rank in the samples.
struct Share {
  std::int64_t samples = 0;  ///< in the data set
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t micro_batch = 1;                  ///< samples in a micro-batch
  c10::intrusive_ptr<c10d::ProcessGroup> group;  ///< for samplers that agree on an order; null if they cannot
};

/// One pass through the data.
struct Pass {
  std::int64_t epoch = 0;
  std::int64_t batches = 0;  ///< micro-batches that the rank took before this pass
};

/// Chooses the samples of a rank, epoch by epoch.
class Sampler {
 public:
  virtual ~Sampler() = default;

  /// Makes the draws from the default generator that creating the loader makes. Call once, when the model is created.
  virtual void prepare() {}

  /// Ids of this rank in one pass, in order. May draw from the default generator, as Python's sampler would.
  virtual std::vector<std::int64_t> order(const Pass& pass) = 0;

  /// State of its own generator before the next `order`; undefined if it has none.
  virtual at::Tensor generator() const { return {}; }

  /// Restores such a state.
  virtual void set_generator(const at::Tensor& /*state*/) {}

  /// Position at which to resume an epoch of which `world_size` ranks took `taken` ids each. Nothing if this rank's
  /// order has no such position.
  virtual std::optional<std::int64_t> position_behind(std::int64_t /*taken*/, std::int64_t /*world_size*/) const {
    return std::nullopt;
  }

  /// Rows before this rank's `rows` if they are a slice of a larger batch. Kernels may round differently by alignment.
  virtual std::int64_t rows_before(std::int64_t /*rows*/) const { return 0; }

  /// Number of ids in every epoch's order.
  virtual std::int64_t size() const = 0;
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_sampler` in sampler/<kind>.cpp.
std::unique_ptr<Sampler> make_sampler(const recipe::SamplerChoice& choice, const Share& share);

/// `position_behind` for ranks that take turns of `turn` ids each. Nothing if not all ranks have finished a turn.
std::optional<std::int64_t> position_behind_turns(const Share& share, std::int64_t turn, std::int64_t taken,
                                                  std::int64_t world_size);

/// Samples of each rank in an epoch, after padding or truncation to a multiple of the world size.
std::int64_t even_size(const Json& options, const Share& share);

/// Order of an epoch before it is split over the ranks: permuted if requested, then padded with its own head or
/// truncated to a multiple of the world size.
/// *Source*: torch.utils.data.DistributedSampler.__iter__, PyTorch 2.11.
std::vector<std::int64_t> even_order(const Json& options, const Share& share, const Pass& pass);

/// torch.randperm(samples) from a generator. *Shape*: [samples].
std::vector<std::int64_t> permutation(std::int64_t samples, at::Generator generator);

/// Order of torch.utils.data.RandomSampler, which draws a seed for its own generator from the default generator.
std::vector<std::int64_t> random_order(std::int64_t samples);

}  // namespace lockstep::train
