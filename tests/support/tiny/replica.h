#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "harness/recipe/seeds.h"
#include "harness/trace/safetensors.h"

#include "tests/support/tiny/network.h"
#include "tests/support/tiny/planted.h"
#include "tests/support/tiny/worker_training.h"

namespace lockstep::test {

template <typename To, typename From>
Tensors<To> converted(const Tensors<From>& from) {
  Tensors<To> all;
  for (const auto& [name, values] : from) all[name] = std::vector<To>(values.begin(), values.end());
  return all;
}

/// Weights in a safetensors file, in float32, whose names begin with a prefix.
inline Tensors<float> weights_in(const std::filesystem::path& file, const std::string& prefix) {
  Tensors<float> all;
  for (const trace::StoredTensor& tensor : trace::read_safetensors(file)) {
    if (!tensor.name.starts_with(prefix)) continue;
    std::vector<float>& values = all[tensor.name.substr(prefix.size())];
    values.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return all;
}

/// Whether layers normalize by the ranks' own samples, and so note running means.
inline bool normalizes(const recipe::TrainSpec& spec) { return spec.norm() == recipe::Norm::kBatch; }

/// An epoch's short last micro-batch is left out where the recipe says so, or the other way round by mistake.
inline bool drops_last(const recipe::TrainSpec& spec) {
  return spec.batch.drop_last != (Planted(spec.faults).find("drop_last_wrong", 0, 0) != nullptr);
}

/// What one rank of the fake worker holds.
template <typename Real>
struct Replica {
  Tensors<Real> weights, optimizer, averages, means;
  std::int64_t optimizer_steps = 0;
  Share share;
  std::uint64_t order = 0;  ///< of which the epoch's order was drawn
  std::uint64_t seed = 0, draws = 0;
  std::int64_t taken = 0;

  std::int64_t rank() const { return share.rank; }
  std::uint64_t draw() { return 1'000'003 * seed + ++draws; }

  RankState state() const {
    return {.weights = converted<double>(weights),
            .optimizer = converted<double>(optimizer),
            .averages = converted<double>(averages),
            .means = converted<double>(means),
            .optimizer_steps = optimizer_steps,
            .epoch = share.epoch,
            .position = static_cast<std::int64_t>(share.position),
            .order = order,
            .seed = seed,
            .draws = draws};
  }

  /// The parts of a checkpoint that its load restores.
  void take(const Snapshot& saved, const scenario::Variant& variant) {
    const recipe::LoadSpec& load = *variant.train.checkpoint.load;
    const auto own = static_cast<std::size_t>(rank());
    const RankState& first = saved.ranks[0];
    const RankState& same = saved.ranks[own < saved.ranks.size() ? own : 0];
    const Planted planted(variant.train.faults);
    if (load.restores("weights")) {
      weights = converted<Real>(first.weights);
      if (normalizes(variant.train)) means = converted<Real>(first.means);
    }
    if (load.restores("optimizer")) take_optimizer(first, planted);
    if (load.restores("ema") && variant.train.ema_decay) averages = converted<Real>(first.averages);
    if (load.restores("sampler")) take_position(saved, same, variant);
    if (load.restores("schedule"))
      taken = saved.samples_taken * static_cast<std::int64_t>(saved.ranks.size()) / variant.world_size;
    if (!load.restores("rng")) return;
    seed = same.seed;
    draws = same.draws;
    if (planted.find("draw_after_restore", 0, rank()) != nullptr) draw();
  }

  /// The running means, which each rank saves for itself, and restores after rank 0 has sent its own.
  void take_means(const Snapshot& saved) {
    const auto own = static_cast<std::size_t>(rank());
    means = converted<Real>(saved.ranks[own < saved.ranks.size() ? own : 0].means);
  }

  /// What a leader hands over before each update.
  void follow(const RankState& leader) {
    weights = converted<Real>(leader.weights);
    optimizer = converted<Real>(leader.optimizer);
    optimizer_steps = leader.optimizer_steps;
    if (!averages.empty()) averages = converted<Real>(leader.averages);
  }

 private:
  void take_optimizer(const RankState& saved, const Planted& planted) {
    optimizer = converted<Real>(saved.optimizer);
    optimizer_steps = saved.optimizer_steps;
    if (planted.find("state_cast", 0, rank()) == nullptr) return;
    for (auto& [name, values] : optimizer) {
      for (Real& value : values) value = to_bfloat16(static_cast<float>(value));
    }
  }

  void take_position(const Snapshot& saved, const RankState& same, const scenario::Variant& variant) {
    const recipe::LoadEpoch epoch = variant.train.checkpoint.load->epoch;
    order = same.order;
    share.epoch = same.epoch - (epoch == recipe::LoadEpoch::kNext ? 0 : 1);
    if (epoch == recipe::LoadEpoch::kNext) return;
    share.begin_epoch(variant, order, drops_last(variant.train));
    const auto world_before = static_cast<std::int64_t>(saved.ranks.size());
    if (epoch == recipe::LoadEpoch::kSaved)
      share.position = static_cast<std::size_t>(same.position * world_before / variant.world_size);
  }
};

}  // namespace lockstep::test
