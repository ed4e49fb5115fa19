#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/module.h>

namespace lockstep::train {

/// Normalizes each channel by the batch's mean and variance. Parameters, buffers and defaults are
/// torch.nn.BatchNorm2d's.
///
/// With a process group, the batch spans all ranks, as in torch.nn.SyncBatchNorm; ranks may hold different numbers of
/// samples. torch's class runs only on GPUs. This one uses plain tensor operations and runs on every device.
class BatchNorm : public torch::nn::Module {
 public:
  BatchNorm(std::int64_t channels, c10::intrusive_ptr<c10d::ProcessGroup> group);

  /// *Shape*: [batch, channels, height, width] float32 → the same.
  /// *Throws*: InputError in training with one value per channel, as torch does.
  at::Tensor forward(const at::Tensor& input);

 private:
  void require_variance(const at::Tensor& input) const;

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::Tensor weight_, bias_;
  at::Tensor running_mean_, running_var_, num_batches_tracked_;
};

}  // namespace lockstep::train
