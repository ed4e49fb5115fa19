#include "harness/train/loss_scale.h"

#include <ATen/ATen.h>

namespace lockstep::train {

bool unscale(std::vector<at::Tensor> gradients, double scale) {
  if (gradients.empty()) return true;
  const at::TensorOptions there = gradients[0].options().dtype(at::kFloat);
  at::Tensor found = at::zeros({1}, there);
  const at::Tensor inverse = at::full({}, scale, there).to(at::kDouble).reciprocal().to(at::kFloat);
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse);
  return found.item<float>() == 0;
}

}  // namespace lockstep::train
