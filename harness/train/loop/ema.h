#pragma once

#include <cstdint>
#include <vector>

#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {

/// Exponential moving average of the weights. The first update copies them; later ones compute average + (1 −
/// decay)·(weight − average). *Source*: torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn, PyTorch 2.11.
class Ema {
 public:
  Ema(double decay, std::vector<NamedTensor> parameters);

  /// Updates the averages. Call it after each update of the weights.
  void update();

  /// Averages by parameter name; empty before the first update.
  std::vector<NamedTensor> state() const;

  /// Restores saved averages. *Throws*: InputError for a wrong name or shape.
  void restore(const std::vector<NamedTensor>& state);

 private:
  double decay_;
  std::vector<NamedTensor> parameters_;
  std::vector<at::Tensor> averages_;
};

}  // namespace lockstep::train
