#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/nn/module.h>

namespace lockstep::train {

/// Normalizes each channel by the batch's mean and variance; parameters, buffers and defaults of torch.nn.BatchNorm2d.
///
/// With a process group, the batch is that of all ranks, as torch.nn.SyncBatchNorm's, also where they hold unequally
/// many samples. That one runs on GPUs only; this is written in plain tensor operations, for every device.
class BatchNorm : public torch::nn::Module {
 public:
  BatchNorm(std::int64_t channels, c10::intrusive_ptr<c10d::ProcessGroup> group);

  /// *Shape*: [batch, channels, height, width] float32 → the same.
  /// *Throws*: InputError in training on one value for each channel, as torch does.
  at::Tensor forward(const at::Tensor& input);

 private:
  void require_variance(const at::Tensor& input) const;

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  at::Tensor weight_, bias_;
  at::Tensor running_mean_, running_var_, num_batches_tracked_;
};

}  // namespace lockstep::train
