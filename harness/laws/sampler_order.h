#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/laws/promise.h"
#include "harness/scenario/scenario.h"

namespace lockstep::laws {

/// Fewer ids than this come in one order by chance.
inline constexpr std::size_t kFewInOrder = 8;

/// How an order of the samples is made, beyond what the recipe's sampler says. A mistake changes one of these.
struct OrderOf {
  std::int64_t rank = 0;
  std::int64_t epoch = 0;
  std::int64_t batches = 0;                ///< micro-batches that the rank took before the epoch
  std::optional<std::uint64_t> seed = {};  ///< instead of the sampler's
  bool sharded = true;                     ///< false: as if there were one rank
};

/// Whether it draws its order from a generator that the training shares, because it has none of its own.
bool draws_from_shared_generator(const recipe::SamplerChoice& sampler);

/// Why nobody knows the order of a sampler beforehand; empty: it can be computed.
std::string no_known_order(const recipe::SamplerChoice& sampler);

/// Ids of one rank in one epoch, in order, before incomplete batches are dropped. The sampler's order must be known.
/// *Source*: torch.randperm on the CPU (ATen, randperm_cpu), torch.utils.data.DistributedSampler, PyTorch 2.11;
/// accelerate 1.15, data_loader.py; torchelastic, ElasticDistributedSampler.
std::vector<std::int64_t> order_of(const scenario::Promises& promises, std::int64_t samples, const OrderOf& which);

}  // namespace lockstep::laws
