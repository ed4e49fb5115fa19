#pragma once

#include <cstdint>
#include <memory>

#include "harness/recipe/train_spec.h"

namespace lockstep::train {

/// One group's learning rate before a step of the schedule. *Units*: float64, as in Python.
struct Rate {
  double initial = 0;      ///< of the group, before the schedule changed it
  double current = 0;      ///< after the previous step; `initial` before step 0
  std::int64_t steps = 0;  ///< steps of the schedule, including this one; 0: it begins
};

/// Learning rate by step, computed as Python computes it.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// The learning rate after this step.
  virtual double next(const Rate& rate) const = 0;

  /// Whether `see` must be called.
  virtual bool wants_loss() const { return false; }

  /// Passes the reduced loss that the next step may use. Call once per step, before `next`.
  virtual void see(double /*loss*/) {}

  /// State of `see`, for a checkpoint.
  virtual Json state() const { return Json::object(); }
  virtual void restore(const Json& /*state*/) {}
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_schedule` in schedule/<kind>.cpp.
std::unique_ptr<Schedule> make_schedule(const recipe::ScheduleChoice& choice);

}  // namespace lockstep::train
