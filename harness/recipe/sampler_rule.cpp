#include "harness/recipe/sampler_rule.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace lockstep::recipe {
namespace {

using Ids = std::vector<std::int64_t>;

/// A generator of the CPU as torch seeds it: MT19937, of whose seed 32 bits count.
std::mt19937 seeded(std::uint64_t seed) { return std::mt19937(static_cast<std::uint32_t>(seed)); }

Ids counted(std::int64_t samples) {
  Ids ids(static_cast<std::size_t>(std::max<std::int64_t>(samples, 0)));
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  return ids;
}

/// torch.randperm(samples, generator).
Ids permutation(std::int64_t samples, std::uint64_t seed) {
  std::mt19937 generator = seeded(seed);
  Ids ids = counted(samples);
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) std::swap(ids[i], ids[i + generator() % (ids.size() - i)]);
  return ids;
}

std::uint64_t seed_of(const SamplerChoice& sampler, const OrderOf& which) {
  return which.seed.value_or(sampler.options.value("seed", std::uint64_t{0}));
}

/// Each sample in the order that all ranks share, before the shares are cut out.
Ids shared_order(const SamplerChoice& sampler, std::int64_t samples, const OrderOf& which) {
  if (!sampler.options.value("shuffle", true)) return counted(samples);
  const Json told = sampler.options.value("set_epoch", Json(true));
  const std::int64_t epoch = told == "iteration" ? which.batches : told == Json(true) ? which.epoch : 0;
  return permutation(samples, seed_of(sampler, which) + static_cast<std::uint64_t>(epoch));
}

/// Filled up from its beginning, or cut off, to a multiple of the ranks.
Ids evened(Ids ids, std::int64_t world, bool drop_last) {
  const std::size_t samples = ids.size(), ranks = static_cast<std::size_t>(world);
  const std::size_t total = (drop_last ? samples / ranks : (samples + ranks - 1) / ranks) * ranks;
  for (std::size_t i = samples; i < total; ++i) ids.push_back(ids[i % samples]);
  ids.resize(total);
  return ids;
}

Ids every(const Ids& ids, std::int64_t stride, std::int64_t first) {
  Ids mine;
  for (auto i = static_cast<std::size_t>(first); i < ids.size(); i += static_cast<std::size_t>(stride))
    mine.push_back(ids[i]);
  return mine;
}

/// Samples in their own order, each rank's through a buffer of its own.
Ids streamed(const SamplerChoice& sampler, std::int64_t samples, std::int64_t world, const OrderOf& which) {
  std::mt19937 generator = seeded(seed_of(sampler, which) + static_cast<std::uint64_t>(which.epoch));
  const bool shard = sampler.options.at("shard").get<bool>() && which.sharded;
  const auto buffer = sampler.options.at("buffer").get<std::size_t>();
  const std::int64_t stride = shard ? world : 1, count = shard ? samples / world : samples;
  Ids waiting, mine;
  const auto take = [&] {
    const std::size_t i = waiting.size() == 1 ? 0 : generator() % waiting.size();
    std::swap(waiting[i], waiting.back());
    mine.push_back(waiting.back());
    waiting.pop_back();
  };
  for (std::int64_t i = 0, id = shard ? which.rank : 0; i < count; ++i, id += stride) {
    waiting.push_back(id);
    if (waiting.size() >= buffer) take();
  }
  while (!waiting.empty()) take();
  return mine;
}

/// Whole micro-batches, dealt out to the ranks in turn.
Ids dealt(const Ids& all, std::int64_t micro, std::int64_t world, std::int64_t rank) {
  Ids mine;
  const auto samples = static_cast<std::int64_t>(all.size());
  for (std::int64_t from = rank * micro; from < samples + micro * world; from += micro * world) {
    for (std::int64_t i = from; i < from + micro; ++i) mine.push_back(all[static_cast<std::size_t>(i % samples)]);
  }
  return mine;
}

/// Rounds of a micro-batch for each rank; a last round that is short is cut into as many slices, which its beginning
/// fills up.
Ids sliced(const Ids& all, std::int64_t micro, std::int64_t world, std::int64_t rank) {
  Ids mine;
  const auto samples = static_cast<std::int64_t>(all.size());
  for (std::int64_t begin = 0; begin < samples; begin += micro * world) {
    const std::int64_t each = (std::min(micro * world, samples - begin) + world - 1) / world;
    for (std::int64_t i = begin + rank * each; i < begin + (rank + 1) * each; ++i)
      mine.push_back(all[static_cast<std::size_t>(i % samples)]);
  }
  return mine;
}

/// Whole micro-batches for as many ranks as have one, then the rest.
std::vector<std::int64_t> dealt_shares(const Json& options, std::int64_t world, std::int64_t micro,
                                       std::int64_t samples) {
  const std::int64_t rest = samples % (micro * world);
  std::vector each(static_cast<std::size_t>(world), samples / (micro * world) * micro);
  if (options.at("drop_last").get<bool>() || rest == 0) return each;
  const bool is_even = options.at("even_batches").get<bool>() && world > 1;
  for (std::int64_t rank = 0; rank < world; ++rank)
    each[static_cast<std::size_t>(rank)] += is_even ? micro : std::clamp<std::int64_t>(rest - rank * micro, 0, micro);
  return each;
}

}  // namespace

const SamplerTraits& traits_of(SamplerKind kind) {
  static const SamplerTraits kUnknown;
  static const SamplerTraits kNone{.dealing = Dealing::kWhole, .owns_generator = false, .no_order = ""};
  static const SamplerTraits kDistributed{.dealing = Dealing::kInTurn, .no_order = ""};
  static const SamplerTraits kContiguous{.dealing = Dealing::kBlocks, .no_order = ""};
  static const SamplerTraits kLibtorch{
      .dealing = Dealing::kBlocks,
      .pads_last = false,  // it shuffles what it has filled up
      .no_order = "LibTorch's sampler shuffles its last order again, with the standard library"};
  static const SamplerTraits kAccelerate{.dealing = Dealing::kBatches, .no_order = ""};
  static const SamplerTraits kDispatch{
      .dealing = Dealing::kBatches, .slices_rounds = true, .owns_generator = false, .no_order = ""};
  static const SamplerTraits kStream{.dealing = Dealing::kStream, .no_order = ""};
  switch (kind) {
    case SamplerKind::kNone:
      return kNone;
    case SamplerKind::kDistributed:
    case SamplerKind::kElastic:
      return kDistributed;
    case SamplerKind::kContiguous:
      return kContiguous;
    case SamplerKind::kLibtorch:
      return kLibtorch;
    case SamplerKind::kAccelerate:
      return kAccelerate;
    case SamplerKind::kDispatch:
      return kDispatch;
    case SamplerKind::kStream:
      return kStream;
    case SamplerKind::kUnknown:
      break;
  }
  return kUnknown;
}

std::optional<std::vector<std::int64_t>> shares_of(const TrainSpec& train, std::int64_t world, std::int64_t samples) {
  const Json& options = train.sampler.options;
  const auto on = [&](const char* key) { return options.at(key).get<bool>(); };
  const auto all = [&](std::int64_t each) { return std::vector(static_cast<std::size_t>(world), each); };
  const std::int64_t micro = train.batch.micro_size(world), round = micro * world, up = (samples + world - 1) / world;

  switch (train.sampler.kind) {
    case SamplerKind::kDistributed:
    case SamplerKind::kContiguous:
      return all(on("drop_last") ? samples / world : up);
    case SamplerKind::kNone:
      return all(samples);
    case SamplerKind::kStream:
      return all(on("shard") ? samples / world : samples);
    case SamplerKind::kLibtorch:
    case SamplerKind::kElastic:
      return all(up);
    case SamplerKind::kDispatch:
      return all(samples / round * micro + (samples % round + world - 1) / world);
    case SamplerKind::kAccelerate:
      return dealt_shares(options, world, micro, samples);
    case SamplerKind::kUnknown:
      break;
  }
  return std::nullopt;
}

bool takes_everything_on_every_rank(const SamplerChoice& sampler) {
  const Dealing dealing = traits_of(sampler.kind).dealing;
  return dealing == Dealing::kWhole || (dealing == Dealing::kStream && !sampler.options.at("shard").get<bool>());
}

bool reshuffles(const SamplerChoice& sampler) {
  if (traits_of(sampler.kind).dealing == Dealing::kStream) return sampler.options.at("buffer").get<std::int64_t>() > 1;
  return sampler.options.value("shuffle", true);
}

std::int64_t ids_that_show_an_order(const SamplerChoice& sampler) {
  constexpr double kOrders = 3'628'800;  // of ten ids
  const std::int64_t buffer = sampler.options.value("buffer", std::numeric_limits<std::int64_t>::max());
  std::int64_t ids = 0;
  for (double orders = 1; buffer > 1 && orders < kOrders;) orders *= static_cast<double>(std::min(++ids, buffer));
  return ids;
}

bool draws_from_shared_generator(const SamplerChoice& sampler) {
  const bool has_seed = sampler.kind != SamplerKind::kAccelerate || sampler.options.contains("seed");
  return !(traits_of(sampler.kind).owns_generator && has_seed) && sampler.options.value("shuffle", true);
}

std::string no_known_order(const SamplerChoice& sampler) {
  if (draws_from_shared_generator(sampler)) return "the order is drawn from a generator that the training shares";
  return traits_of(sampler.kind).no_order;
}

Ids order_of(const TrainSpec& train, std::int64_t world_size, std::int64_t samples, const OrderOf& which) {
  const SamplerChoice& sampler = train.sampler;
  const std::int64_t world = which.sharded ? world_size : 1, rank = which.sharded ? which.rank : 0;
  const std::int64_t first = sampler.options.value("start", std::int64_t{0});
  if (samples <= first) return {};
  const Dealing dealing = traits_of(sampler.kind).dealing;
  if (dealing == Dealing::kStream) return streamed(sampler, samples, world, which);
  Ids all = shared_order(sampler, samples - first, which);
  for (std::int64_t& id : all) id += first;
  if (dealing == Dealing::kWhole) return all;
  if (dealing == Dealing::kBatches) {
    const auto deal = traits_of(sampler.kind).slices_rounds ? sliced : dealt;
    return deal(all, train.batch.micro_size(world_size), world, rank);
  }
  all = evened(std::move(all), world, sampler.options.value("drop_last", false));
  if (dealing == Dealing::kInTurn) return every(all, world, rank);
  const auto each = static_cast<std::ptrdiff_t>(all.size()) / world;
  return {all.begin() + rank * each, all.begin() + (rank + 1) * each};
}

}  // namespace lockstep::recipe
