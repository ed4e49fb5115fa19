#include "harness/train/loop/criterion.h"

#include <ATen/ATen.h>

#include "harness/train/loop/loss.h"

namespace lockstep::train {

at::Tensor Criterion::loss(const at::Tensor& logits, const at::Tensor& labels, std::int64_t targets_of_world) const {
  return rank_.faults.passed(&Fault::loss, scaled(logits, labels, targets_of_world));
}

at::Tensor Criterion::scaled(const at::Tensor& logits, const at::Tensor& labels, std::int64_t targets_of_world) const {
  if (exact_) return exact_->loss(logits, labels);
  const recipe::TrainSpec& spec = rank_.run.train;
  const bool of_world = spec.loss_average == recipe::LossAverage::kWorld;
  at::Tensor loss;
  if (!rank_.faults.instead(&Fault::criterion, loss, logits, labels, of_world))
    loss = of_world ? summed_loss(logits, labels) : mean_loss(logits, labels);
  if (of_world)  // times the ranks, because DDP divides by them
    return loss * (static_cast<double>(rank_.place.world_size) / static_cast<double>(targets_of_world));
  const std::int64_t accumulation = rank_.faults.passed(&Fault::accumulation, spec.batch.accumulation);
  return accumulation > 1 ? loss / accumulation : loss;
}

}  // namespace lockstep::train
