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

/// Learning rates of one group as a trace's ledger holds them, by step.
using Rates = std::map<std::int64_t, double>;

/// `name`: "learning_rate", "learning_rate.1".
Rates rates_of(const trace::Trace& rank, const std::string& name);

/// Whether no update before a step had a rate: nothing has moved there yet.
bool are_zero_before(const Rates& rates, std::int64_t step);

/// What a schedule gives for an update; nothing where it is not known.
using Curve = std::function<std::optional<double>(std::int64_t update)>;

/// How a schedule may be counted otherwise.
struct Counting {
  double steps = 1;   ///< of the schedule, for each update
  double warmup = 1;  ///< longer than the recipe says, this many times
};

/// The closed form of a recipe's learning rate, whatever `schedule_every` says of ranks. Empty where none is known: the
/// schedule advances with the epochs, or begins elsewhere. To be asked for one update after the other. `losses`: that
/// the schedule saw, by update.
Curve curve_of(const scenario::Promises& promises, const std::string& name, const Counting& counting,
               const std::vector<double>& losses);

/// The same training's rates at steps·t in the place of t, as far as they were recorded.
Curve stretched(const Rates& rates, double steps);

/// Whether the rates are the curve's: wherever it is known, and at several steps.
bool follows(const Rates& rates, const Curve& curve);

/// The same, where the curve is no flat line: that one is of any pace.
bool traces(const Rates& rates, const Curve& curve);

/// Updates of the recipe's warm-up, of schedule and rule; 0: none.
std::int64_t warmup_of(const scenario::Promises& promises);

}  // namespace lockstep::laws
