#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/recipe/train_spec.h"
#include "harness/record/rank_recorder.h"
#include "harness/train/collective/collective.h"
#include "harness/train/fault/fault.h"
#include "harness/train/loop/loss_scale.h"
#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {

/// Gradients of one rank from backward pass to update. It records them before and after the reduction, after unscaling
/// and after clipping.
/// *Lifetime*: of `recorder`, `faults` and `collective`, and no longer than any backward pass of the parameters.
class Gradients {
 public:
  Gradients(const std::vector<NamedTensor>& parameters, const recipe::GradientSpec& spec, record::Recorder& recorder,
            const Faults& faults, Collective& collective);
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  /// Clears the gradients of the previous update.
  void begin();

  /// Gradients that are there before the first backward pass, and not zero.
  std::int64_t left() const;

  /// Tells whether the next backward pass is the update's last one, whose local gradients are reduced.
  void expect(bool last) { last_ = last; }

  /// Records, unscales and clips the gradients. False if some are not finite, so that the update must be skipped.
  bool finish();

  /// The factor of the losses of this update; nothing where they are not scaled.
  std::optional<double> loss_scale() const { return scale_ ? std::optional(scale_->value()) : std::nullopt; }

  /// After the update: a dynamic scale follows.
  void update_scale() {
    if (scale_) scale_->update();
  }

 private:
  void watch(std::size_t i);
  void clip();
  void record_reduced();
  void record_again(const std::string& done);
  std::vector<NamedTensor> named() const;
  std::vector<at::Tensor> present() const;

  /// A parameter and, if needed, its gradient before the reduction.
  struct Entry {
    NamedTensor parameter;
    std::optional<trace::Record> seen;
    at::Tensor kept;
  };

  recipe::GradientSpec spec_;
  record::Recorder& recorder_;
  const Faults& faults_;
  Collective& collective_;
  std::vector<Entry> entries_;
  std::optional<LossScale> scale_;
  bool last_ = true;
};

}  // namespace lockstep::train
