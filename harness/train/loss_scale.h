#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// Divides gradients by the loss scale. Returns whether all are finite; if not, the update must be skipped.
/// *Source*: torch.amp.GradScaler.unscale_, PyTorch 2.11.
bool unscale(std::vector<at::Tensor> gradients, double scale);

}  // namespace lockstep::train
