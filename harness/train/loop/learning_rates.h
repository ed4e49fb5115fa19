#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/recipe/train_spec.h"
#include "harness/train/schedule/schedule.h"

namespace lockstep::train {

/// Learning rate of every parameter group, from rule and schedule.
/// *Lifetime*: of `spec`.
class LearningRates {
 public:
  LearningRates(const recipe::TrainSpec& spec, std::int64_t world_size);

  /// Rates for the next update, by group. *Throws*: InputError for one that float32 weights cannot be multiplied by.
  std::vector<double> now() const;

  /// Whether `advance` needs a loss.
  bool wants_loss() const { return schedule_->wants_loss(); }

  /// Advances the schedule by `steps`. `loss`: reduced loss of the last update.
  void advance(std::int64_t steps, double loss);

  /// State for a checkpoint.
  struct State {
    std::int64_t steps = 0;
    std::vector<Rate> rates;
    Json schedule;
  };
  State state() const { return {.steps = steps_, .rates = rates_, .schedule = schedule_->state()}; }

  /// *Throws*: InputError if the number of groups differs.
  void restore(const State& state);

  /// Restores only the rates, as loading an optimizer's state does. *Throws*: as `restore`.
  void take_current(const State& state);

  /// Advances its own schedule by as many steps as `state` has.
  /// *Throws*: InputError if the schedule follows losses, because a checkpoint does not hold them.
  void go_to(const State& state);

 private:
  void require_groups(const State& state) const;

  const recipe::TrainSpec& spec_;
  double factor_;  ///< factor of the rule, already applied to the rates
  std::unique_ptr<Schedule> schedule_;
  std::vector<Rate> rates_;
  std::int64_t steps_ = 0;
};

}  // namespace lockstep::train
