#include "harness/laws/promise.h"

#include <algorithm>
#include <numeric>

#include "harness/recipe/sampler_rule.h"

namespace lockstep::laws {
namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

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
  const recipe::SamplerTraits& traits = traits_of(sampler.kind);
  Promise promise{.first = sampler.options.value("start", std::int64_t{0}),
                  .samples = samples,
                  .by_rank = takes_everything_on_every_rank(sampler),
                  .reshuffles = reshuffles(sampler),
                  .one_order = traits.deals_one_order(),
                  .never_again = ids_that_show_an_order(sampler)};
  const std::int64_t used = std::max<std::int64_t>(samples - promise.first, 0);
  const auto each = recipe::shares_of(promises.train, promises.world_size, used);
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
  for (const std::int64_t share : *each) promise.new_until.push_back(traits.pads_last ? share - padding : 0);
  return promise;
}

}  // namespace lockstep::laws
