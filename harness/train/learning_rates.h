#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "harness/scenario/train_spec.h"
#include "harness/train/schedule.h"

namespace lockstep::train {

/// The learning rate of every parameter group, as rule and schedule make it.
/// *Lifetime*: of `spec`.
class LearningRates {
 public:
  LearningRates(const scenario::TrainSpec& spec, std::int64_t world_size);

  /// For the next update, by group. *Throws*: InputError for one that float32 weights cannot be multiplied by.
  std::vector<double> now() const;

  /// Whether `advance` must be told a loss.
  bool wants_loss() const { return schedule_->wants_loss(); }

  /// Takes steps of the schedule. `loss`: the reduced one of the last update.
  void advance(std::int64_t steps, double loss);

  /// All that a checkpoint must hold.
  struct State {
    std::int64_t steps = 0;
    std::vector<Rate> rates;
    Json schedule;
  };
  State state() const { return {.steps = steps_, .rates = rates_, .schedule = schedule_->state()}; }

  /// *Throws*: InputError when it is of another number of groups.
  void restore(const State& state);

  /// Takes the rates alone: what an optimizer's state brings with it. *Throws*: as `restore`.
  void take_current(const State& state);

  /// Takes as many steps of its own schedule as `state` has.
  /// *Throws*: InputError when the schedule followed losses, which no checkpoint has.
  void go_to(const State& state);

 private:
  void require_groups(const State& state) const;

  const scenario::TrainSpec& spec_;
  double factor_;  ///< of the rule, already in the rates
  std::unique_ptr<Schedule> schedule_;
  std::vector<Rate> rates_;
  std::int64_t steps_ = 0;
};

}  // namespace lockstep::train
