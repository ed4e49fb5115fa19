#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/scenario/train_spec.h"

namespace lockstep::laws {

/// A learning rate in its closed form, and how far the trainer's may be from it: it computes step by step, each step
/// rounds a few times. *Units*: float64.
struct ExpectedRate {
  double rate = 0;
  double rounding = 0;
};

/// The closed form of one parameter group's learning rate. *Lifetime*: of the schedule.
class ScheduleForm {
 public:
  /// A schedule that begins at `base`.
  ScheduleForm(const scenario::Choice& schedule, double base);

  /// Learning rate after so many steps, never fewer than in the call before. `losses`: the reduced ones that a plateau
  /// saw, one for each step. Nothing where no closed form is known, or losses are missing.
  std::optional<ExpectedRate> after(std::int64_t steps, const std::vector<double>& losses);

 private:
  /// What a plateau remembers of the losses that it saw.
  struct Plateau {
    std::int64_t seen = 0, bad = 0, cooling = 0, reductions = 0;
    double rate = 0, best = 0;
  };
  std::optional<ExpectedRate> plateau(std::int64_t steps, const std::vector<double>& losses);

  const scenario::Choice& schedule_;
  double base_;
  Plateau plateau_;
};

}  // namespace lockstep::laws
