#include "harness/train/sampler/sampler.h"

#include <numeric>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) std::unique_ptr<Sampler> make_##name##_sampler(const Json& options, const Share& share);
#include "kinds/sampler.inc"
#undef LOCKSTEP_KIND

std::unique_ptr<Sampler> make_sampler(const recipe::SamplerChoice& choice, const Share& share) {
#define LOCKSTEP_KIND(name) \
  if (name_of(choice.kind) == #name) return make_##name##_sampler(choice.options, share);
#include "kinds/sampler.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no sampler of kind " + text_of(choice.kind)});
}

std::optional<std::int64_t> position_behind_turns(const Share& share, std::int64_t turn, std::int64_t taken,
                                                  std::int64_t world_size) {
  const std::int64_t together = taken * world_size;
  if (together >= share.samples) return share.samples;  // the epoch is over
  if (together % (turn * share.world_size) != 0) return std::nullopt;
  return together / share.world_size;
}

std::int64_t even_size(const Json& options, const Share& share) {
  const bool drop_last = options.at("drop_last").get<bool>();
  return drop_last ? share.samples / share.world_size : (share.samples + share.world_size - 1) / share.world_size;
}

std::vector<std::int64_t> permutation(std::int64_t samples, at::Generator generator) {
  const at::Tensor drawn = at::randperm(samples, std::move(generator), at::TensorOptions(at::kLong));
  return {drawn.const_data_ptr<std::int64_t>(), drawn.const_data_ptr<std::int64_t>() + samples};
}

std::vector<std::int64_t> random_order(std::int64_t samples) {
  const auto seed = at::empty({}, at::kLong).random_().item<std::int64_t>();
  return permutation(samples, at::detail::createCPUGenerator(static_cast<std::uint64_t>(seed)));
}

std::vector<std::int64_t> even_order(const Json& options, const Share& share, const Pass& pass) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(share.samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (options.at("shuffle").get<bool>()) {
    const Json& told = options.at("set_epoch");
    std::int64_t epoch = told == "iteration" ? pass.batches : told == true ? pass.epoch : 0;
    order = permutation(share.samples, at::detail::createCPUGenerator(options.at("seed").get<std::uint64_t>() +
                                                                      static_cast<std::uint64_t>(epoch)));
  }
  const auto total = static_cast<std::size_t>(even_size(options, share) * share.world_size);
  for (std::size_t i = order.size(); i < total; ++i)
    order.push_back(order[i % static_cast<std::size_t>(share.samples)]);
  order.resize(total);
  return order;
}

}  // namespace lockstep::train
