#pragma once

#include <cstdint>
#include <optional>

#include "harness/train/device/exact.h"
#include "harness/train/loop/rank_context.h"

namespace lockstep::train {

/// Loss of a micro-batch, scaled so that the update's gradients are the mean that the recipe asks for.
/// *Lifetime*: of `rank` and `exact`.
class Criterion {
 public:
  Criterion(const RankContext& rank, const std::optional<Exact>& exact) : rank_(rank), exact_(exact) {}

  /// Shapes as `mean_loss`. `targets_of_world`: of the update, where the loss is averaged over all ranks' targets.
  at::Tensor loss(const at::Tensor& logits, const at::Tensor& labels, std::int64_t targets_of_world) const;

 private:
  at::Tensor scaled(const at::Tensor& logits, const at::Tensor& labels, std::int64_t targets_of_world) const;

  const RankContext& rank_;
  const std::optional<Exact>& exact_;
};

}  // namespace lockstep::train
