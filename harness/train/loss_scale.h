#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// Divides gradients by the scale that their loss was multiplied with. Returns whether all of them are finite; if not,
/// the update is to be skipped.
/// *Source*: torch.amp.GradScaler.unscale_, PyTorch 2.11.
bool unscale(std::vector<at::Tensor> gradients, double scale);

}  // namespace lockstep::train
