#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/scenario/train_spec.h"

namespace lockstep::compare {

/// A learning rate in its closed form, and how far the trainer's may be from it: it computes step by step, each step
/// rounds a few times. *Units*: float64.
struct ExpectedRate {
  double rate = 0;
  double rounding = 0;
};

/// Learning rate after `steps` steps of a schedule that began at `base`; `losses` are the reduced losses that a
/// plateau saw, one for each step. Nothing where no closed form is known, or losses are missing.
std::optional<ExpectedRate> expected_rate(const scenario::Choice& schedule, double base, std::int64_t steps,
                                          const std::vector<double>& losses);

}  // namespace lockstep::compare
