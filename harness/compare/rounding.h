#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/compare/difference.h"
#include "harness/laws/scales.h"

namespace lockstep::compare {

/// How far apart two tensors are at least, and how far rounding can have brought them, in the L2 norm.
struct Rounding {
  double distance = 0;
  double bound = 0;
  double factor = 0;  ///< what a factor of 1 + 2^-10 on one rank of eight would make

  /// Never true of NaN or infinity: they swallow every difference.
  bool explained() const;

  /// Explained, but by so wide a bound that it may be a wrong factor.
  bool may_be_factor() const { return explained() && distance > factor; }
};

/// The bound of rounding on two runs that are equal in exact arithmetic.
///
/// A gradient at step s may differ by (λ·u·√(n·(s + 1)) + g·e)·scale. u is the unit roundoff of its dtype, or of a
/// coarser one that the trace's header names because autocast or a compression hook computes in it; n the number
/// of terms that reach one of its elements in one step (samples × positions of the global batch, ranks, and the fan-in
/// and fan-out of every layer between), so that n·(s + 1) roundings reach it in all; λ = 8 keeps the probability that
/// they exceed the bound below 10⁻¹³ an element. scale is the largest norm among the gradients of its layer, before the
/// reduction or after: what is added up for one is added up for all, also where a sum cancels (a bias before a batch
/// norm). e is the largest relative difference of earlier gradients that this bound explained, and g = 8 the factor by
/// which one update can amplify it: step length × curvature stays below 2·(1 + momentum) < 4 in a stable training, and
/// the scale may halve from one step to the next. Where e itself, above its first term, was seen to grow by more than
/// g/2 in a step, g is twice that from there on.
/// Loss and optimizer state: the same, with the largest norm so far as scale. Weights, buffers and averages: the same
/// with the length of the last update, and of the whole path, as scale, plus the rounding of what is stored. Inputs and
/// everything that is not floating must be equal bit by bit.
///
/// Distances come from the sketches, which are right within a factor of 2 (exact up to 32 elements), and from the
/// norms. *Source*: Higham and Mary 2019, "A new approach to probabilistic rounding error analysis", theorem 2.4; for
/// g, Cohen et al. 2021, "Gradient descent on neural networks typically occurs at the edge of stability", section 2.
/// *Lifetime*: of both runs.
class RoundingBound {
 public:
  /// Where the two compute in different dtypes: the rounding of the coarser.
  RoundingBound(const trace::RunTrace& left, const trace::RunTrace& right);

  /// The same, but of the finer: what a coarser one alone rounds away counts as a difference.
  static RoundingBound of_finer(const trace::RunTrace& left, const trace::RunTrace& right);

  /// Of two runs of which each step begins in the state that `left` had before it: nothing is inherited.
  static RoundingBound of_one_step(const trace::RunTrace& left, const trace::RunTrace& right);

  /// Nothing when the records cannot be apart by rounding: other dtype or shape, no float, no sketch.
  std::optional<Rounding> judge(const trace::Record& left, const trace::Record& right, std::int64_t step,
                                std::int64_t rank) const;

  /// Why rounding may have led to this divergence although it exceeds the bound; nothing when it cannot have.
  ///
  /// Two ways: so much was inherited that one lost sample would not show any more; or an activation that rounding moved
  /// went over the kink of a ReLU or of a maximum. A kink leaves the loss of its step and the gradients of the last
  /// layer within their bounds, moves the others by no more than one sample can, never by a factor, needs weights that
  /// differ already, and never makes the ranks of one run disagree. Without gradients it is never assumed.
  std::optional<std::string> undecided(const Divergence& divergence) const;

  /// First step whose bound hides one lost sample, what the last step hands on counted as that of the step after;
  /// nothing when every step can be told.
  std::optional<std::int64_t> horizon() const;

 private:
  RoundingBound(const trace::RunTrace& left, const trace::RunTrace& right, double arithmetic, bool of_one_step = false);

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
  double arithmetic_;  ///< least unit roundoff
  double weights_;     ///< unit roundoff of the weights
  bool of_one_step_;
  laws::Scales left_scales_, right_scales_;
  std::map<std::int64_t, double> inherited_;  ///< g·e of the steps before, by step
};

/// Relation "equal in exact arithmetic": within the bound of rounding. *Lifetime*: of both runs.
Relation within_rounding(const trace::RunTrace& left, const trace::RunTrace& right);

/// The same, of a bound that is there already. *Lifetime*: of `bound`.
Relation within(const RoundingBound& bound);

/// A difference that rounding explains is no fault of the training's meaning: says so in its class and cause.
void name_rounding(Divergence& divergence, const trace::RunTrace& left, const trace::RunTrace& right);

/// Whether two runs begin with other weights only because other kernels drew them: no farther apart than by rounding.
bool draw_otherwise(const trace::RunTrace& left, const trace::RunTrace& right);

/// Bound on the rounding of a parameter's first update.
double update_bound(const trace::RunTrace& run, const trace::Record& weight);

}  // namespace lockstep::compare
