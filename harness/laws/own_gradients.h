#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/laws/held.h"
#include "harness/laws/recover.h"

namespace lockstep::laws {

/// A sketch for each parameter, made of others'.
using Made = std::map<std::string, trace::Sketch>;

/// The ranks' own gradients of one step, before the reduction, freed of a loss scale that the ledger names. Tells what
/// the whole batch gives, whatever the reduction makes of it. *Lifetime*: of the run.
class OwnGradients {
 public:
  OwnGradients(const trace::RunTrace& run, std::int64_t step);

  /// Whether every rank recorded some.
  bool complete() const { return complete_; }
  std::size_t ranks() const { return held_.size(); }
  const std::vector<Held>& held() const { return held_; }

  Made mean() const;
  /// Σ weights[rank] · own gradients of the rank.
  Made weighted(const std::vector<double>& weights) const;
  Made of(std::size_t rank) const;

 private:
  std::vector<Held> held_;
  bool complete_ = true;
  double scale_ = 1;
};

/// Sketches of a channel's records, by the names that they have there.
Made made_of(const std::vector<const trace::Record*>& records);

/// The combination of terms that fits all parameters of the target best, one coefficient for each term.
std::optional<Combination> fit(const Made& target, const std::vector<const Made*>& terms);

/// ‖a − b‖ / ‖b‖ over all parameters; NaN where that is nothing.
double apart(const Made& a, const Made& b);

}  // namespace lockstep::laws
