#include "harness/laws/promise.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace lockstep::laws {
namespace {

using recipe::SamplerKind;

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Samples of each rank in an epoch.
std::optional<std::vector<std::int64_t>> shares(const scenario::Promises& promises, std::int64_t samples) {
  const Json& options = promises.train.sampler.options;
  const auto on = [&](const char* key) { return options.at(key).get<bool>(); };
  const std::int64_t world = promises.world_size, micro = promises.train.batch.micro_size(world), round = micro * world;
  const auto all = [&](std::int64_t each) { return std::vector(static_cast<std::size_t>(world), each); };

  switch (promises.train.sampler.kind) {
    case SamplerKind::kDistributed:
    case SamplerKind::kContiguous:
      return all(on("drop_last") ? samples / world : divided_up(samples, world));
    case SamplerKind::kNone:
      return all(samples);
    case SamplerKind::kStream:
      return all(on("shard") ? samples / world : samples);
    case SamplerKind::kLibtorch:
    case SamplerKind::kElastic:
      return all(divided_up(samples, world));
    case SamplerKind::kDispatch:
      return all(samples / round * micro + divided_up(samples % round, world));
    case SamplerKind::kAccelerate: {
      std::vector<std::int64_t> each = all(samples / round * micro);
      const std::int64_t rest = samples % round;
      if (on("drop_last") || rest == 0) return each;
      for (std::int64_t rank = 0; rank < world; ++rank)
        each[static_cast<std::size_t>(rank)] +=
            on("even_batches") && world > 1 ? micro : std::clamp<std::int64_t>(rest - rank * micro, 0, micro);
      return each;
    }
    case SamplerKind::kUnknown:
      break;
  }
  return std::nullopt;
}

bool reshuffles(const recipe::SamplerChoice& sampler) {
  if (sampler.kind == SamplerKind::kStream) return sampler.options.at("buffer").get<std::int64_t>() > 1;
  return sampler.options.value("shuffle", true);
}

/// Of n ids that go through a buffer there are as many orders as the product of min(k, buffer), k = 1 to n. A
/// permutation is a buffer that holds everything.
std::int64_t never_again(const recipe::SamplerChoice& sampler) {
  constexpr double kOrders = 3'628'800;  // of ten ids
  const std::int64_t buffer = sampler.options.value("buffer", std::numeric_limits<std::int64_t>::max());
  std::int64_t ids = 0;
  for (double orders = 1; buffer > 1 && orders < kOrders;) orders *= static_cast<double>(std::min(++ids, buffer));
  return ids;
}

}  // namespace

bool takes_everything_on_every_rank(const recipe::SamplerChoice& sampler) {
  return sampler.kind == SamplerKind::kNone ||
         (sampler.kind == SamplerKind::kStream && !sampler.options.at("shard").get<bool>());
}

bool Promise::usable() const {
  return !each.empty() && std::all_of(each.begin(), each.end(), [](std::int64_t share) { return share > 0; });
}

bool begins_within_an_epoch(const recipe::TrainSpec& train) {
  const auto& load = train.checkpoint.load;
  return load && (load->restores("sampler") || load->restores("schedule"));
}

std::optional<std::int64_t> size_said(const recipe::DataChoice& data) {
  const bool is_side = data.kind == recipe::DataKind::kImageFolder;  // in pixels
  if (is_side || !data.options.contains("size")) return std::nullopt;
  return data.options.at("size").get<std::int64_t>();
}

std::int64_t samples_in(const trace::Trace& rank) {
  return rank.header.is_object() ? rank.header.value("samples", std::int64_t{0}) : 0;
}

std::int64_t samples_of(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known && promises.knows("data")) return promises.train.data.options.at("samples").get<std::int64_t>();
  return samples_in(run.ranks[0]);
}

std::optional<Promise> promise_of(const scenario::Promises& promises, std::int64_t samples) {
  const recipe::SamplerChoice& sampler = promises.train.sampler;
  Promise promise{.first = sampler.options.value("start", std::int64_t{0}),
                  .samples = samples,
                  .by_rank = takes_everything_on_every_rank(sampler),
                  .reshuffles = reshuffles(sampler),
                  .one_order = sampler.kind != SamplerKind::kNone && sampler.kind != SamplerKind::kStream,
                  .never_again = never_again(sampler)};
  const std::int64_t used = std::max<std::int64_t>(samples - promise.first, 0);
  const auto each = shares(promises, used);
  if (!each) return std::nullopt;
  promise.each = *each;
  const std::int64_t micro = promises.train.batch.micro_size(promises.world_size);
  for (std::int64_t& share : promise.each) share -= promises.train.batch.drop_last ? share % micro : 0;
  if (!promise.usable()) return promise;
  const auto total = [&](const std::vector<std::int64_t>& shares) {
    return promise.by_rank ? shares[0] : std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  };
  promise.least = total(promise.each) / used;
  promise.most = divided_up(total(*each), used);  // what fills up may stay where other samples are dropped
  const std::int64_t padding = std::max<std::int64_t>(total(*each) - used, 0);
  const bool padded_last = sampler.kind != SamplerKind::kLibtorch;  // which pads before it shuffles
  for (const std::int64_t share : *each) promise.new_until.push_back(padded_last ? share - padding : 0);
  return promise;
}

}  // namespace lockstep::laws
