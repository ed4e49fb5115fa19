#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// Number of targets: labels that are not padding.
std::int64_t targets_in(const at::Tensor& labels);

/// Mean cross entropy over the targets. *Shape*: logits [batch, (length,) classes], labels [batch(, length)] → [].
at::Tensor mean_loss(const at::Tensor& logits, const at::Tensor& labels);

/// Sum of the cross entropy over the targets; shapes as above.
at::Tensor summed_loss(const at::Tensor& logits, const at::Tensor& labels);

/// The loss of each target by its definition, in float64, as no training computes it: log Σ exp(logits) − the logit of
/// the label; shapes as above. *Shape*: → [targets].
at::Tensor losses_of_targets(const at::Tensor& logits, const at::Tensor& labels);

/// The losses of logits in the training's dtype, rounded as the training rounds them: under autocast a GPU computes the
/// logarithms of 16-bit logits in 16 bits, the CPU in float32.
/// *Source*: at::cross_entropy_loss hands the logits' dtype on; aten/src/ATen/autocast_mode.cpp, PyTorch 2.11.
at::Tensor rounded_losses_of_targets(const at::Tensor& logits, const at::Tensor& labels);

}  // namespace lockstep::train
