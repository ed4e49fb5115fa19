#include "harness/train/loop/clip.h"

#include <ATen/ATen.h>

namespace lockstep::train {

void clip_norm(std::vector<at::Tensor> gradients, double max_norm) {
  if (gradients.empty()) return;
  const at::Tensor total = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients, 2.0)), 2.0);
  const at::Tensor factor = at::clamp((total + 1e-6).reciprocal().mul(max_norm), std::nullopt, 1.0);
  at::_foreach_mul_(gradients, factor);
}

void clip_value(const std::vector<at::Tensor>& gradients, double max_value) {
  for (at::Tensor gradient : gradients) gradient.clamp_(-max_value, max_value);
}

}  // namespace lockstep::train
