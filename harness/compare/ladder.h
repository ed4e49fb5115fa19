#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/difference.h"
#include "harness/compare/rounding.h"
#include "harness/compare/runs.h"
#include "harness/laws/scales.h"

namespace lockstep::compare {

/// One difference, seen in float32 and again in float64.
struct Ladder {
  enum class Says {
    kRounding,  ///< it shrank as rounding does
    kMistake,   ///< it stayed
    kNothing,   ///< neither
  };
  double in_float32 = 0;  ///< relative to the layer's largest norm
  double in_float64 = 0;

  Says says() const;
  /// "2.4e-07 of its scale in float32, 3.1e-16 in float64 (x 2^-29.5)".
  std::string text() const;
};

/// Where a record is, in two runs at once.
struct Location {
  std::int64_t step = 0;
  trace::Channel channel = trace::Channel::kSamples;
  std::string tensor;
  std::size_t left_rank = 0, right_rank = 0;
};

/// The record of a rank of a run at a place; null where there is none.
const trace::Record* record_of(const trace::RunTrace& run, const Location& place, std::size_t rank);

/// Whether two runs differ at a place by so little of the layer's scale that rounding could be why.
bool differ_slightly(const trace::RunTrace& left, const trace::RunTrace& right, const Location& place);

/// Whether all numbers of a run are.
bool is_finite(const trace::RunTrace& run);

/// Whether a run computes or sends 16 bits.
bool uses_16_bits(const trace::RunTrace& run);

/// Two trainings in float32, and the same two in float64.
///
/// They compute the same function where every difference in float64 is at most 2^-18 of what float32 has made of
/// rounding up to its step, or within the bound on float64's own (what grows for long has grown as far in float32 as it
/// can), and where everything that does not round is equal.
/// *Lifetime*: of the four runs.
class PrecisionLadder {
 public:
  PrecisionLadder(const trace::RunTrace& left, const trace::RunTrace& right, const trace::RunTrace& left_in_float64,
                  const trace::RunTrace& right_in_float64);

  /// One place in both precisions, relative to the layer's scale. Nothing where it cannot be measured: another shape,
  /// no float, no sketch, not finite.
  std::optional<Ladder> at(const Location& place) const;

  /// Why float64 proves nothing here: a compression hook still sends 16 bits, NaN swallows every difference, or the
  /// first weights are apart as in float32. Empty where it does.
  std::string obstacle() const;

  /// The first place, of these channels, where the two differ by more than rounding.
  Comparison judge(const std::vector<trace::Channel>& channels, const Scope& scope = {}) const;

  /// What rounding has made of losses and gradients in float32 up to a step, at its largest, relative to their scales.
  double rounding_until(std::int64_t step) const { return until(of_computed_, step); }

  /// First step from which on float64 tells nothing more, because rounding has grown in float32 until it is no less
  /// than what is computed; nothing where every step can be told.
  std::optional<std::int64_t> horizon() const;

  /// Relation of the float32 runs: no difference that stays in float64. *Lifetime*: of the ladder.
  Relation shrinks() const;

  /// The first place of these channels, in the float32 runs, whose difference stays in float64. What comes before it,
  /// and is rounding, hides nothing.
  std::optional<Divergence> first_mistake(const std::vector<trace::Channel>& channels, const Scope& scope = {}) const;

  /// Relation of the float32 runs: no farther apart than the rounding of the step makes them. That is told from
  /// float64, where nothing else parts the two: 2^33 times what is left of the difference there, or of the largest
  /// among the step's losses and gradients. *Measured*: at most 2^30.8 times in 2,880 steps of 252 pairs, in none with
  /// a kink. Nothing is told where rounding has grown by more than 2^11 in float64, or to as much in float32 as the
  /// step may have inherited: one direction carries all of it then, and the precisions need have nothing in common
  /// there. Where each step began in one state nothing is inherited, and what an update makes of it is held against
  /// what it makes there alone. *Lifetime*: of the ladder.
  Relation within_rounding_of_step(bool from_one_state = false) const;

  /// Whether a side computes or sends 16 bits in its float32 run: then float64 tells nothing of its rounding.
  bool uses_16_bits() const;

 private:
  friend bool differ_slightly(const trace::RunTrace& left, const trace::RunTrace& right, const Location& place);

  /// Two runs of one precision.
  struct Rung {
    const trace::RunTrace& left;
    const trace::RunTrace& right;
    laws::Scales left_scales, right_scales;

    std::optional<double> distance(const trace::Record& left, const trace::Record& right, std::int64_t step) const;
    std::optional<double> distance(const Location& place) const;
  };

  /// Whether rounding may have made it: in float64, where it is far smaller.
  bool explained_in_float64(const trace::Record& left, const trace::Record& right, std::int64_t step,
                            std::int64_t rank) const;

  using BySteps = std::map<std::int64_t, double>;
  BySteps rounding_of(const std::vector<trace::Channel>& channels) const;
  static double until(const BySteps& largest, std::int64_t step);

  Rung float32_, float64_;
  RoundingBound bound64_;
  std::optional<std::int64_t> horizon64_;  ///< of the bound
  /// Largest relative difference in float32 that shrinks, of a step or before: of losses and gradients, and of weights
  /// and optimizer state.
  BySteps of_computed_, of_states_;
};

}  // namespace lockstep::compare
