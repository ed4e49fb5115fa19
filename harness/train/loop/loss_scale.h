#pragma once

#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/recipe/train_spec.h"

namespace lockstep::train {

/// The factor that a loss is multiplied by so that small gradients stay above the range of float16.
/// *Source*: torch.amp.GradScaler, PyTorch 2.11.
class LossScale {
 public:
  /// `spec`: with a loss_scale.
  explicit LossScale(const recipe::GradientSpec& spec);

  double value() const;

  /// Divides gradients by the scale. Returns whether all are finite; if not, the update must be skipped.
  bool unscale(std::vector<at::Tensor> gradients);

  /// After an update, or one that was skipped: a dynamic scale grows or falls.
  void update();

 private:
  at::Tensor scale_;    ///< float32
  at::Tensor tracker_;  ///< int32, updates since it changed
  at::Tensor found_;    ///< float32, not 0 where the last gradients were not finite
  std::optional<recipe::GradientSpec::DynamicScale> dynamic_;
};

}  // namespace lockstep::train
