#pragma once

#include <cstdint>
#include <memory>

#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// One group's learning rate before a step of the schedule. *Units*: float64, as in Python.
struct Rate {
  double initial = 0;      ///< the group's own, before the schedule touched it
  double current = 0;      ///< as the step before left it; `initial` before step 0
  std::int64_t steps = 0;  ///< of the schedule, with this one; 0: the schedule begins
};

/// Learning rate over the steps, in the form in which Python computes it.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// The learning rate after this step.
  virtual double next(const Rate& rate) const = 0;

  /// Whether `see` must be told of losses.
  virtual bool wants_loss() const { return false; }

  /// The reduced loss that the next step may look at; once for each step, before `next`.
  virtual void see(double /*loss*/) {}

  /// What `see` keeps, for a checkpoint.
  virtual Json state() const { return Json::object(); }
  virtual void restore(const Json& /*state*/) {}
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_schedule` in schedule/<kind>.cpp.
std::unique_ptr<Schedule> make_schedule(const scenario::Choice& choice);

}  // namespace lockstep::train
