#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/difference.h"
#include "harness/compare/rounding.h"
#include "harness/compare/scope.h"
#include "harness/laws/scales.h"

namespace lockstep::compare {

/// The same difference measured in float32 and in float64.
///
/// Rounding shrinks, but not all that shrinks is rounding: a flipped bit of an exponent may be 10^36 of the scale in
/// float32, and 10^-2 in float64. A difference in float64 is no rounding if it is larger than float32's largest
/// rounding can make it. Where float32 differs as a whole, the difference is rounding only if the sides are of one
/// size, or within the bound of float64.
struct Ladder {
  enum class Says {
    kRounding,  ///< it shrinks as rounding does
    kMistake,   ///< it stays
    kNothing,   ///< neither
  };
  double in_float32 = 0;  ///< relative to the largest norm in the layer
  double in_float64 = 0;
  bool may_be_whole = false;  ///< rounding may be as large as the result: the sides are of one size

  Says says() const;
  /// "the difference is 2.4e-07 of the layer's scale in float32 and 3.1e-16 in float64, 2^29.5 times less".
  std::string text() const;
};

/// Place of a record in two runs.
struct Location {
  std::int64_t step = 0;
  trace::Channel channel = trace::Channel::kSamples;
  std::string tensor;
  std::size_t left_rank = 0, right_rank = 0;
};

/// Record of one rank at a place; null if there is none.
const trace::Record* record_of(const trace::RunTrace& run, const Location& place, std::size_t rank);

/// Whether two runs differ at a place so little, relative to the layer's scale, that rounding could explain it.
bool differ_slightly(const trace::RunTrace& left, const trace::RunTrace& right, const Location& place);

/// First step of a run with a number that is not finite; kNoStep if there is none.
std::int64_t first_not_finite(const trace::RunTrace& run);

/// Step from which NaN or infinity hides every difference of two runs in both precisions; kNoStep if it never does.
/// Where one side alone is lost, in both precisions, the step at which it is can be compared.
std::int64_t comparable_until(const trace::RunTrace& left, const trace::RunTrace& right,
                              const trace::RunTrace& left_in_float64, const trace::RunTrace& right_in_float64);

/// Whether all numbers of a run are finite, up to a step.
bool is_finite(const trace::RunTrace& run, std::int64_t until = std::numeric_limits<std::int64_t>::max());

/// Whether a run computes or communicates in 16 bits.
bool uses_16_bits(const trace::RunTrace& run);

/// Two trainings in float32 and the same two in float64. Rounding shrinks in float64; mistakes stay.
///
/// The two trainings compute the same if everything that cannot round is equal, and each difference in float64 is
/// rounding. It is rounding if one of these holds:
/// - It is at most 2^-18 of the largest rounding in float32 up to its step. If float32 differs as a whole there, both
/// sides have about one norm.
/// - It is within RoundingBound of the float64 runs. Differences that grow for long reach a limit in float32, so the
/// ratio alone would not do.
/// *Lifetime*: of the four runs.
class PrecisionLadder {
 public:
  PrecisionLadder(const trace::RunTrace& left, const trace::RunTrace& right, const trace::RunTrace& left_in_float64,
                  const trace::RunTrace& right_in_float64);

  /// Difference at one place in both precisions. Nothing if it cannot be measured: other shape, no float, no sketch,
  /// not finite.
  std::optional<Ladder> at(const Location& place) const;

  /// Why the float64 runs prove nothing: a compression hook still sends 16 bits, NaN hides every difference, or the
  /// initial weights differ as they do in float32. Empty if they do prove something, up to a step.
  std::string obstacle(std::int64_t until = std::numeric_limits<std::int64_t>::max()) const;

  /// First place in these channels where the two trainings differ by more than rounding.
  Comparison judge(const std::vector<trace::Channel>& channels, const Scope& scope = {}) const;

  /// Largest rounding difference of losses and gradients in float32 up to a step, relative to their scales.
  double rounding_until(std::int64_t step) const { return until(of_computed_, step); }

  /// First step from which float64 proves nothing, because rounding in float32 has grown to the size of the results.
  /// Nothing if float64 can judge every step.
  std::optional<std::int64_t> horizon() const;

  /// Relation of the float32 runs: no difference stays in float64, and no side alone is NaN or infinite in both
  /// precisions. *Lifetime*: of the ladder.
  Relation shrinks() const;

  /// First place in these channels of the float32 runs whose difference stays in float64. Rounding before it is
  /// skipped.
  std::optional<Divergence> first_mistake(const std::vector<trace::Channel>& channels, const Scope& scope = {}) const;

  /// Relation of the float32 runs: they differ by no more than rounding in one step can explain. The limit is 2^33
  /// times the difference that remains in float64, at the same place or in the step's losses and gradients.
  /// *Measured*: at most 2^30.8 times in 2,880 steps of 252 pairs; none of them had a kink.
  ///
  /// A difference is not judged in two cases, because the two precisions may then have nothing in common:
  /// - Rounding has grown by more than 2^11 in float64.
  /// - The difference is within the growth that the step may have inherited in float32.
  ///
  /// `from_one_state`: each step starts from one state, so steps inherit nothing. Updates are then compared only with
  /// the difference in float64 at the same place. *Lifetime*: of the ladder.
  Relation within_rounding_of_step(bool from_one_state = false) const;

  /// Whether a side computes or communicates in 16 bits in its float32 run. Float64 cannot judge that rounding.
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

  /// Whether the difference in float64 is within rounding.
  bool explained_in_float64(const trace::Record& left, const trace::Record& right, std::int64_t step,
                            std::int64_t rank) const;
  bool explained_in_float64(const Location& place) const;

  /// Whether one side alone is not finite, the same one in both precisions.
  bool lost_on_one_side(const Location& place) const;

  /// Whether the sides in float32 are of about one norm: what rounding leaves of a result.
  bool of_one_size_at(const Location& place) const;

  using BySteps = std::map<std::int64_t, double>;
  BySteps rounding_of(const std::vector<trace::Channel>& channels) const;
  static double until(const BySteps& largest, std::int64_t step);

  Rung float32_, float64_;
  RoundingBound bound64_;
  std::optional<std::int64_t> horizon64_;  ///< of `bound64_`
  /// Largest relative difference in float32 that shrinks, up to each step. One map is for losses and gradients, the
  /// other for weights and optimizer state.
  BySteps of_computed_, of_states_;
};

}  // namespace lockstep::compare
