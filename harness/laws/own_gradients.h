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

/// One computed sketch per parameter.
using Made = std::map<std::string, trace::Sketch>;

/// The factor on a step's losses that its ledger holds; nothing where it holds none.
std::optional<double> loss_scale_of(const Held& held);

/// Local gradients of all ranks in one step, before the reduction and divided by the ledger's loss scale. They give the
/// whole batch's gradient even if the reduction is wrong. Ranks that compute one batch together have recorded those
/// after it only: they are the same. *Lifetime*: of the run.
class OwnGradients {
 public:
  OwnGradients(const trace::RunTrace& run, std::int64_t step);

  /// A rank's records of them.
  std::vector<const trace::Record*> records(std::size_t rank) const;

  /// Whether every rank recorded local gradients.
  bool complete() const { return complete_; }
  std::size_t ranks() const { return held_.size(); }
  const std::vector<Held>& held() const { return held_; }

  Made mean() const;
  /// Σ weights[rank] · local gradients of the rank.
  Made weighted(const std::vector<double>& weights) const;
  Made of(std::size_t rank) const;

 private:
  std::vector<Held> held_;
  trace::Channel channel_ = trace::Channel::kGradientLocal;
  bool complete_ = true;
  double scale_ = 1;
};

/// Sketches of a channel's records, by record name.
Made made_of(const std::vector<const trace::Record*>& records);

/// Sketches of float32 gradients fit their terms to this: weights of terms that differ by no more are the same, and a
/// fit explains its target where no more is left of it.
inline constexpr double kSameWeight = 2e-3, kFits = 1e-3;

/// Bound for one factor, or for the terms of one update; 16-bit gradients leave less.
inline constexpr double kFactorFits = 1e-2;

/// Least-squares fit of the target by the terms: one coefficient per term, shared by all parameters.
std::optional<Combination> fit(const Made& target, const std::vector<const Made*>& terms);

/// ‖a − b‖ / ‖b‖ over all parameters; NaN if undefined.
double apart(const Made& a, const Made& b);

}  // namespace lockstep::laws
