#pragma once

/// Numbers of torch.nn.utils.clip_grad_norm_, by which laws and causes judge clipped gradients.
namespace lockstep::laws {

/// torch adds it to the norm before it divides the threshold by the norm. *Source*: torch/nn/utils/clip_grad.py.
inline constexpr double kNormEpsilon = 1e-6;

/// Two norms of gradients this near to each other are the same. torch adds the squares of all elements in float32.
inline constexpr double kNormError = 1e-3;

}  // namespace lockstep::laws
