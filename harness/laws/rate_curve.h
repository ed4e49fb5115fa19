#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::laws {

/// Step-by-step rules round a few times a step; another rate, or another count of steps, is farther off than this.
inline constexpr double kSameRate = 1e-9;

/// Recorded learning rates of one parameter group, by step.
using Rates = std::map<std::int64_t, double>;

/// Learning rates in a trace's ledger. `name`: "learning_rate", "learning_rate.1".
Rates rates_of(const trace::Trace& rank, const std::string& name);

/// Whether all learning rates before a step were zero, so that no weight has moved.
bool are_zero_before(const Rates& rates, std::int64_t step);

/// Learning rate of a schedule at an update; nothing if unknown.
using Curve = std::function<std::optional<double>(std::int64_t update)>;

/// Ways to miscount a schedule.
struct Counting {
  double steps = 1;   ///< schedule steps per update
  double warmup = 1;  ///< factor on the length of the warm-up
};

/// Closed form of a recipe's learning rate under a way of counting, which replaces `schedule_every`. Empty if no closed
/// form is known: the schedule starts at a later step. Call it with increasing updates.
/// `losses`: those that the schedule saw, by update.
Curve curve_of(const scenario::Promises& promises, const std::string& name, const Counting& counting,
               const std::vector<double>& losses);

/// The recipe's own learning rate, by the way in which it counts: after an update, for each rank, or by the epochs that
/// a rank recorded. Empty where `curve_of` is, but for an epoch.
Curve promised_curve(const scenario::Promises& promises, const std::string& name, const std::vector<double>& losses,
                     const trace::Trace& rank);

/// Curve that gives, at update t, the rate recorded at steps·t.
Curve stretched(const Rates& rates, double steps);

/// Whether the rates follow the curve wherever it is known, at several steps at least.
bool follows(const Rates& rates, const Curve& curve);

/// The same for a curve that is not constant. A constant curve fits any way of counting.
bool traces(const Rates& rates, const Curve& curve);

/// Length of the recipe's warm-up (schedule and rule), in updates; 0 if none.
std::int64_t warmup_of(const scenario::Promises& promises);

}  // namespace lockstep::laws
