#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/launch/progress.h"
#include "harness/scenario/train_spec.h"
#include "harness/train/loader.h"
#include "harness/train/optimizer.h"

namespace lockstep::train {

/// The mistakes planted into this rank's training; each acts at one named place of the trainer's loop.
class Faults {
 public:
  Faults(const std::vector<scenario::Choice>& faults, std::int64_t rank);

  /// kill, hang, exit: does it, if this rank is to do it here.
  void arrive(std::int64_t step, launch::Phase phase) const;

  /// swap_samples. *Throws*: InputError when it names a place outside the batch.
  void disturb(std::vector<std::int64_t>& ids, std::int64_t step) const;

  /// learning_rate_factor.
  double disturb(double learning_rate, std::int64_t step) const;

  /// Whether gradient_not_reduced acts on this parameter.
  bool keeps_local_gradient(const std::string& parameter, std::int64_t step) const;

  /// clip_before_reduction.
  bool clips_before_reduction(std::int64_t step) const;

  /// What a metric's sum over the ranks is divided by: metric_by_device_count.
  std::int64_t metric_divisor(std::int64_t world_size, std::int64_t step) const;

  /// flip_weight_bit.
  void disturb(const std::vector<NamedTensor>& weights, std::int64_t step) const;

  /// *Throws*: InputError when a fault names a parameter that the model lacks.
  void require_parameters(const std::vector<NamedTensor>& parameters) const;

  /// *Throws*: InputError when a fault names a place outside its micro-batch. `updates`: done already.
  void require_samples(const Loader& loader, std::int64_t updates, const scenario::BatchSpec& batch) const;

 private:
  std::vector<scenario::Choice> mine_;
};

}  // namespace lockstep::train
