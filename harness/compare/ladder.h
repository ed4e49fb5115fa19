#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/compare/difference.h"
#include "harness/compare/scales.h"

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
struct Place {
  std::int64_t step = 0;
  trace::Channel channel = trace::Channel::kSamples;
  std::string tensor;
  std::size_t left_rank = 0, right_rank = 0;
};

/// Whether two runs differ at a place by so little of the layer's scale that rounding could be why.
bool differ_slightly(const trace::RunTrace& left, const trace::RunTrace& right, const Place& place);

/// Two trainings in float32, and the same two in float64.
///
/// They compute the same function where every difference in float64 is at most 2^-18 of the one in float32, or of
/// float32's own rounding where that is larger, and where everything that does not round is equal.
/// *Lifetime*: of the four runs.
class PrecisionLadder {
 public:
  PrecisionLadder(const trace::RunTrace& left, const trace::RunTrace& right, const trace::RunTrace& left_in_float64,
                  const trace::RunTrace& right_in_float64);

  /// One place in both precisions, relative to the layer's scale. Nothing where it cannot be measured: another shape,
  /// no float, no sketch, not finite.
  std::optional<Ladder> at(const Place& place) const;

  /// Why float64 proves nothing here: a compression hook still sends 16 bits, NaN swallows every difference, or the
  /// first weights are apart as in float32. Empty where it does.
  std::string obstacle() const;

  /// The first place, of these channels, where the two differ by more than rounding.
  Comparison judge(const std::vector<trace::Channel>& channels) const;

  /// The first place of these channels, in the float32 runs, whose difference stays in float64. What comes before it,
  /// and is rounding, hides nothing.
  std::optional<Divergence> first_mistake(const std::vector<trace::Channel>& channels) const;

  /// Relation of the float32 runs: no farther apart than the rounding of the step makes them. That is told from
  /// float64, where nothing else parts the two: 2^33 times what is left of the difference there, or of the largest
  /// among the step's losses and gradients. *Measured*: at most 2^30.8 times in 2,880 steps of 252 pairs, in none with
  /// a kink. *Lifetime*: of the ladder.
  Relation within_rounding_of_step() const;

 private:
  /// Two runs of one precision.
  struct Rung {
    const trace::RunTrace& left;
    const trace::RunTrace& right;
    Scales left_scales, right_scales;

    std::optional<double> distance(const trace::Record& left, const trace::Record& right, std::int64_t step) const;
    std::optional<double> distance(const Place& place) const;
  };

  Rung float32_, float64_;
};

}  // namespace lockstep::compare
