#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/compare/difference.h"
#include "harness/laws/scales.h"

namespace lockstep::compare {

/// Distance of two tensors and the bound that rounding can explain. Both are L2 norms.
struct Rounding {
  double distance = 0;
  double bound = 0;
  double factor = 0;  ///< distance that a factor of 1 + 2^-10 on one rank of eight makes

  /// Whether the distance is within the bound. Never true for NaN or infinity, which hide every difference.
  bool explained() const;

  /// Whether the bound is so wide that a wrong factor would fit under it too.
  bool may_be_factor() const { return explained() && distance > factor; }
};

/// Bound on the rounding differences of two runs that are equal in exact arithmetic.
///
/// A gradient at step s may differ by (λ·u·√(n·(s + 1)) + g·e)·scale:
/// - u: unit roundoff of its dtype, or the coarser one that the trace's header names for autocast or a compression
/// hook.
/// - n: number of terms that reach one element in one step. They are samples × positions of the global batch, ranks,
/// and the fan-in and fan-out of every layer between. After s + 1 steps, n·(s + 1) roundings have reached it.
/// - λ = 8: roundings exceed the bound with probability below 10⁻¹³ per element.
/// - scale: largest norm among the gradients of its layer, before or after the reduction. The layer shares it because a
/// sum may cancel in one of its gradients (a bias before a batch norm).
/// - e: largest relative difference of earlier gradients that this bound explained.
/// - g = 8: the most by which one update amplifies e. In a stable training, step length × curvature stays below 2·(1 +
/// momentum) < 4, and the scale may halve in one step. If e is seen to grow by more than g/2 in a step, g is twice that
/// growth from there on.
///
/// Other channels:
/// - Loss and optimizer state: the same bound; scale is the largest norm so far.
/// - Weights, buffers and averages: the same bound plus the rounding of stored numbers; scale is the length of the last
/// update, and of all updates.
/// - Inputs and everything that is not floating must be bitwise equal.
///
/// Distances come from norms and from sketches. A sketch is right within a factor of 2, and exact up to 32 elements.
/// *Source*: Higham and Mary 2019, "A new approach to probabilistic rounding error analysis", theorem 2.4; for g, Cohen
/// et al. 2021, "Gradient descent on neural networks typically occurs at the edge of stability", section 2.
/// *Lifetime*: of both runs.
class RoundingBound {
 public:
  /// If the two compute in different dtypes, the coarser one sets the bound.
  RoundingBound(const trace::RunTrace& left, const trace::RunTrace& right);

  /// The finer dtype sets the bound: rounding of the coarser one alone counts as a difference.
  static RoundingBound of_finer(const trace::RunTrace& left, const trace::RunTrace& right);

  /// For runs in which each step starts from the state that `left` had before it. Steps inherit nothing (e = 0).
  static RoundingBound of_one_step(const trace::RunTrace& left, const trace::RunTrace& right);

  /// For sides that lack sketches, as goldens do. Distances come from numbers and norms alone, so that each is a least
  /// one: a difference beyond the bound is beyond it, and one within it need not be.
  static RoundingBound of_norms(const trace::RunTrace& left, const trace::RunTrace& right);

  /// Distance and bound of two records. Nothing if rounding cannot be judged: other dtype or shape, no float, no
  /// sketch.
  std::optional<Rounding> judge(const trace::Record& left, const trace::Record& right, std::int64_t step,
                                std::int64_t rank) const;

  /// Why rounding may explain a divergence that exceeds the bound; nothing if it cannot.
  ///
  /// There are two reasons:
  /// - Inherited differences are so large that one lost sample would not show (`horizon`).
  /// - Rounding moved an activation across the kink of a ReLU or a maximum.
  ///
  /// A kink is assumed only if gradients were recorded, the weights already differ and the ranks of each run agree. The
  /// step's loss and the last layer's gradients must be within their bounds. The other gradients must not move by a
  /// factor, or by more than one sample can. `kinks`: whether an activation may have one; without, the reason is named
  /// as growth.
  std::optional<std::string> undecided(const Divergence& divergence, bool kinks) const;

  /// First step whose bound would hide one lost sample; the step after the last one counts too. Nothing if no step
  /// would.
  std::optional<std::int64_t> horizon() const;

 private:
  RoundingBound(const trace::RunTrace& left, const trace::RunTrace& right, double arithmetic, bool of_one_step = false,
                bool of_norms = false);

  double relative(double unit_roundoff, std::int64_t step) const;
  Rounding judge_position(const trace::Record& left, const trace::Record& right, std::int64_t step) const;
  Rounding judge_step(const trace::Record& left, const trace::Record& right, std::int64_t step) const;
  std::optional<Rounding> judge_update(const trace::Record& left, const trace::Record& right, std::int64_t step,
                                       std::int64_t rank) const;
  bool equal_or_explained(const trace::Record& left, const trace::Record& right, std::int64_t step) const;
  void inherit();
  double largest_explained(const trace::Step& step) const;
  bool states_differ_before(std::int64_t step) const;
  bool kink_fits(const Divergence& divergence) const;
  bool kink_reaches(const trace::Record& left, const trace::Record& right, std::int64_t step) const;

  const trace::RunTrace& left_;
  const trace::RunTrace& right_;
  double arithmetic_;  ///< unit roundoff of autocast or compression; 0 if neither
  double weights_;     ///< unit roundoff of the weights
  bool of_one_step_;
  bool of_norms_;
  laws::Scales left_scales_, right_scales_;
  std::map<std::int64_t, double> inherited_;  ///< g·e by step
};

/// Relation "equal up to rounding": within RoundingBound. *Lifetime*: of both runs.
Relation within_rounding(const trace::RunTrace& left, const trace::RunTrace& right);

/// The same with an existing bound. *Lifetime*: of `bound`.
Relation within(const RoundingBound& bound);

/// Classifies a divergence as rounding, with a cause that says why.
void name_rounding(Divergence& divergence, const trace::RunTrace& left, const trace::RunTrace& right);

/// Whether the initial weights of two runs differ only by the rounding of different kernels.
bool draw_otherwise(const trace::RunTrace& left, const trace::RunTrace& right);

/// Bound on the rounding of a parameter's first update.
double update_bound(const trace::RunTrace& run, const trace::Record& weight);

}  // namespace lockstep::compare
