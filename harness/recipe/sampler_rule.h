#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/recipe/train_spec.h"

/// How a sampler deals out the samples, as checks, laws and audits know it. train/ has code of its own, so that one can
/// prove the other.
namespace lockstep::recipe {

/// Fewer ids than this come in one order by chance.
inline constexpr std::size_t kFewInOrder = 8;

/// How samples reach the ranks.
enum class Dealing {
  kUnknown,
  kWhole,    ///< each rank takes all of them
  kInTurn,   ///< one order, of which rank r takes every W-th sample from the r-th on
  kBlocks,   ///< one order, of which each rank takes one block
  kBatches,  ///< one order, whose micro-batches go to the ranks in turn
  kStream,   ///< each rank reads every W-th sample, and shuffles those by itself
};

/// Properties of a sampler's kind.
struct SamplerTraits {
  Dealing dealing = Dealing::kUnknown;
  bool pads_last = true;       ///< samples that fill up a share come last in it
  bool slices_rounds = false;  ///< a last round that is short is cut into even slices, one for each rank
  bool owns_generator = true;  ///< it draws its order from a generator of its own, if its options have a seed for it
  /// Why `order_of` does not compute its order; empty: it does.
  const char* no_order = "the order of this sampler is unknown";

  /// Whether all ranks take their samples from one common order.
  bool deals_one_order() const { return dealing != Dealing::kWhole && dealing != Dealing::kStream; }
};

const SamplerTraits& traits_of(SamplerKind kind);

/// Samples of each rank in an epoch, before incomplete batches are dropped. Nothing for an unknown kind.
std::optional<std::vector<std::int64_t>> shares_of(const TrainSpec& train, std::int64_t world_size,
                                                   std::int64_t samples);

/// Whether this sampler splits nothing.
bool takes_everything_on_every_rank(const SamplerChoice& sampler);

/// Whether each epoch has an order of its own.
bool reshuffles(const SamplerChoice& sampler);

/// So many ids do not come in the same order twice by chance. Through a buffer, n ids have as many orders as the
/// product of min(k, buffer), k = 1 to n; a permutation is a buffer that holds everything.
std::int64_t ids_that_show_an_order(const SamplerChoice& sampler);

/// How an order of the samples is made, beyond what the recipe's sampler says. A mistake changes one of these.
struct OrderOf {
  std::int64_t rank = 0;
  std::int64_t epoch = 0;
  std::int64_t batches = 0;                ///< micro-batches that the rank took before the epoch
  std::optional<std::uint64_t> seed = {};  ///< instead of the sampler's
  bool sharded = true;                     ///< false: as if there were one rank
};

/// Whether it draws its order from a generator that the training shares, because it has none of its own.
bool draws_from_shared_generator(const SamplerChoice& sampler);

/// Why the order of a sampler cannot be computed; empty: it can.
std::string no_known_order(const SamplerChoice& sampler);

/// Ids of one rank in one epoch, in order, before incomplete batches are dropped. The sampler's order must be known.
/// *Source*: torch.randperm on the CPU (ATen, randperm_cpu), torch.utils.data.DistributedSampler, PyTorch 2.11;
/// accelerate 1.15, data_loader.py; torchelastic, ElasticDistributedSampler.
std::vector<std::int64_t> order_of(const TrainSpec& train, std::int64_t world_size, std::int64_t samples,
                                   const OrderOf& which);

}  // namespace lockstep::recipe
