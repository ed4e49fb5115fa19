#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Generator.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// Place of a rank among the samples.
struct Share {
  std::int64_t samples = 0;  ///< in the data set
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  std::int64_t micro_batch = 1;                  ///< samples that a rank takes at once
  c10::intrusive_ptr<c10d::ProcessGroup> group;  ///< for samplers that agree on an order; nothing: not at all
};

/// One time through the data.
struct Pass {
  std::int64_t epoch = 0;
  std::int64_t batches = 0;  ///< micro-batches that the rank took before it
};

/// Which samples a rank takes, epoch by epoch.
class Sampler {
 public:
  virtual ~Sampler() = default;

  /// Draws what making the loader draws from the default generator; once, when the model is made.
  virtual void prepare() {}

  /// Ids of this rank in one pass, in order. May draw from the default generator, as Python's sampler would.
  virtual std::vector<std::int64_t> order(const Pass& pass) = 0;

  /// State of a generator of its own that the next `order` draws from; undefined where it draws from none.
  virtual at::Tensor generator() const { return {}; }

  /// Puts such a state back.
  virtual void set_generator(const at::Tensor& /*state*/) {}

  /// Where to go on in an epoch of which another number of ranks took `taken` ids each: behind those that they all took
  /// together. Nothing when that is no place in this rank's order.
  virtual std::optional<std::int64_t> position_behind(std::int64_t /*taken*/, std::int64_t /*world_size*/) const {
    return std::nullopt;
  }

  /// Rows that lie before this rank's `rows` in the batch of which they are a slice: kernels round by alignment.
  virtual std::int64_t rows_before(std::int64_t /*rows*/) const { return 0; }

  /// Number of ids in every epoch's order.
  virtual std::int64_t size() const = 0;
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_sampler` in sampler/<kind>.cpp.
std::unique_ptr<Sampler> make_sampler(const scenario::Choice& choice, const Share& share);

/// `position_behind` where the ranks take turns, `turn` ids each: nothing within a turn of all ranks.
std::optional<std::int64_t> position_behind_turns(const Share& share, std::int64_t turn, std::int64_t taken,
                                                  std::int64_t world_size);

/// Samples of each rank in an epoch, after padding or truncation to a multiple of the world size.
std::int64_t even_size(const Json& options, const Share& share);

/// The epoch's order before it is dealt out to the ranks: permuted if asked for, then padded with its own head or
/// truncated to a multiple of the world size.
/// *Source*: torch.utils.data.DistributedSampler.__iter__, PyTorch 2.11.
std::vector<std::int64_t> even_order(const Json& options, const Share& share, const Pass& pass);

/// torch.randperm(samples) from a generator. *Shape*: [samples].
std::vector<std::int64_t> permutation(std::int64_t samples, at::Generator generator);

/// The order of torch.utils.data.RandomSampler, which draws the seed of its own generator from the default one.
std::vector<std::int64_t> random_order(std::int64_t samples);

}  // namespace lockstep::train
