#include "harness/laws/sampler_order.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace lockstep::laws {
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

std::uint64_t seed_of(const recipe::SamplerChoice& sampler, const OrderOf& which) {
  return which.seed.value_or(sampler.options.value("seed", std::uint64_t{0}));
}

/// Each sample in the order that all ranks share, before the shares are cut out.
Ids shared_order(const recipe::SamplerChoice& sampler, std::int64_t samples, const OrderOf& which) {
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
Ids streamed(const recipe::SamplerChoice& sampler, std::int64_t samples, std::int64_t world, const OrderOf& which) {
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

}  // namespace

bool draws_from_shared_generator(const recipe::SamplerChoice& sampler) {
  const bool has_none_of_its_own =
      sampler.kind == recipe::SamplerKind::kNone || sampler.kind == recipe::SamplerKind::kDispatch ||
      (sampler.kind == recipe::SamplerKind::kAccelerate && !sampler.options.contains("seed"));
  return has_none_of_its_own && sampler.options.value("shuffle", true);
}

std::string no_known_order(const recipe::SamplerChoice& sampler) {
  if (draws_from_shared_generator(sampler)) return "the order is drawn from a generator that the training shares";
  return sampler.kind == recipe::SamplerKind::kLibtorch
             ? "LibTorch's sampler shuffles what it shuffled before, by the standard library"
             : "";
}

Ids order_of(const scenario::Promises& promises, std::int64_t samples, const OrderOf& which) {
  const recipe::SamplerChoice& sampler = promises.train.sampler;
  const std::int64_t world = which.sharded ? promises.world_size : 1, rank = which.sharded ? which.rank : 0;
  const std::int64_t first = sampler.options.value("start", std::int64_t{0});
  if (samples <= first) return {};
  if (sampler.kind == recipe::SamplerKind::kStream) return streamed(sampler, samples, world, which);
  Ids all = shared_order(sampler, samples - first, which);
  for (std::int64_t& id : all) id += first;
  if (sampler.kind == recipe::SamplerKind::kNone) return all;
  if (sampler.kind == recipe::SamplerKind::kAccelerate)
    return dealt(all, promises.train.batch.micro_size(promises.world_size), world, rank);
  all = evened(std::move(all), world, sampler.options.value("drop_last", false));
  if (sampler.kind != recipe::SamplerKind::kContiguous) return every(all, world, rank);
  const auto each = static_cast<std::ptrdiff_t>(all.size()) / world;
  return {all.begin() + rank * each, all.begin() + (rank + 1) * each};
}

}  // namespace lockstep::laws
