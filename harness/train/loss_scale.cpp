#include "harness/train/loss_scale.h"

#include <ATen/ATen.h>

namespace lockstep::train {

bool unscale(std::vector<at::Tensor> gradients, double scale) {
  at::Tensor found = at::zeros({1}, at::kFloat);
  const at::Tensor inverse = at::full({}, scale, at::kFloat).to(at::kDouble).reciprocal().to(at::kFloat);
  if (!gradients.empty()) at::_amp_foreach_non_finite_check_and_unscale_(gradients, found, inverse);
  return found.item<float>() == 0;
}

}  // namespace lockstep::train
