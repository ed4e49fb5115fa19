#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/recipe/train_spec.h"

namespace lockstep::recipe {

/// Learning rate in closed form, and a bound on the trainer's rounding: the trainer computes it step by step. *Units*:
/// float64.
struct ExpectedRate {
  double rate = 0;
  double rounding = 0;
};

/// Closed form of one parameter group's learning rate. *Lifetime*: of the schedule.
class ScheduleForm {
 public:
  /// `base`: learning rate at which the schedule begins.
  ScheduleForm(const ScheduleChoice& schedule, double base);

  /// Learning rate after `steps` steps; `steps` must not decrease between calls. `losses`: reduced losses for a
  /// plateau, one per step. Nothing if no closed form is known or losses are missing.
  std::optional<ExpectedRate> after(std::int64_t steps, const std::vector<double>& losses);

 private:
  /// State of ReduceLROnPlateau.
  struct Plateau {
    std::int64_t seen = 0, bad = 0, cooling = 0, reductions = 0;
    double rate = 0, best = 0;
  };
  std::optional<ExpectedRate> plateau(std::int64_t steps, const std::vector<double>& losses);

  const ScheduleChoice& schedule_;
  double base_;
  Plateau plateau_;
};

}  // namespace lockstep::recipe
