#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// Scales all gradients by one factor so that their total L2 norm is at most `max_norm`. torch::nn::utils would give
/// other bits than Python.
/// *Source*: torch.nn.utils.clip_grad_norm_ with its default foreach path, PyTorch 2.11.
void clip_norm(std::vector<at::Tensor> gradients, double max_norm);

/// Limits each element's magnitude. *Source*: torch.nn.utils.clip_grad_value_, PyTorch 2.11.
void clip_value(const std::vector<at::Tensor>& gradients, double max_value);

}  // namespace lockstep::train
