#include "harness/train/loop/loss_scale.h"

#include <ATen/ATen.h>

namespace lockstep::train {

LossScale::LossScale(const recipe::GradientSpec& spec)
    : scale_(at::full({}, *spec.loss_scale, at::kFloat)),
      tracker_(at::zeros({}, at::kInt)),
      found_(at::zeros({}, at::kFloat)),
      dynamic_(spec.dynamic_scale) {}

double LossScale::value() const { return scale_.item<double>(); }

bool LossScale::unscale(std::vector<at::Tensor> gradients) {
  if (gradients.empty()) return true;
  const at::TensorOptions there = gradients[0].options().dtype(at::kFloat);
  at::Tensor found = at::zeros({1}, there);
  const at::Tensor inverse = scale_.to(at::kDouble).reciprocal().to(at::kFloat).to(there.device());
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse);
  found_ = found.cpu();
  return found_.item<float>() == 0;
}

void LossScale::update() {
  if (dynamic_)
    at::_amp_update_scale_(scale_, tracker_, found_, dynamic_->growth, dynamic_->backoff, dynamic_->interval);
}

}  // namespace lockstep::train
