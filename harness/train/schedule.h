#pragma once

#include <cstdint>
#include <memory>

#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// Learning rate over the updates, in Python's chainable form: each value is computed from the one before, in float64.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// Learning rate after `updates` updates, given the one before the last of them.
  virtual double next(double learning_rate, std::int64_t updates) const = 0;
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_schedule` in schedule/<kind>.cpp.
std::unique_ptr<Schedule> make_schedule(const scenario::Choice& choice);

}  // namespace lockstep::train
