#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// Place of a rank among the samples.
struct Share {
  std::int64_t samples = 0;  ///< in the data set
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
};

/// Which samples a rank takes, epoch by epoch.
class Sampler {
 public:
  virtual ~Sampler() = default;

  /// Ids of this rank in one epoch, in order. May draw from the default generator, as Python's sampler would.
  virtual std::vector<std::int64_t> order(std::int64_t epoch) = 0;

  /// Number of ids in every epoch's order.
  virtual std::int64_t size() const = 0;
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_sampler` in sampler/<kind>.cpp.
std::unique_ptr<Sampler> make_sampler(const scenario::Choice& choice, const Share& share);

/// Samples of each rank in an epoch, after padding or truncation to a multiple of the world size.
std::int64_t even_size(const Json& options, const Share& share);

/// The epoch's order before it is dealt out to the ranks: permuted if asked for, then padded with its own head or
/// truncated to a multiple of the world size.
/// *Source*: torch.utils.data.DistributedSampler.__iter__, PyTorch 2.11.
std::vector<std::int64_t> even_order(const Json& options, const Share& share, std::int64_t epoch);

}  // namespace lockstep::train
