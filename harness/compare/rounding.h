#pragma once

#include "harness/compare/difference.h"

namespace lockstep::compare {

/// Relation "equal in exact arithmetic": floating tensors within the bound that rounding can explain, all else bitwise.
///
/// The bound of a tensor at step s, in the L2 norm, is λ·u·√n·(s + 1)·scale, where u is the unit roundoff of its dtype, n
/// the number of terms that reach one of its elements (samples × positions of the global batch, ranks, and the fan-in and
/// fan-out of every layer between), and scale the largest norm that was added up: of the tensor, or of the local gradients
/// before the reduction. λ = 8 keeps the probability that rounding alone exceeds it below 10⁻¹³ an element. For weights
/// the scale is the length of the path that the updates took, plus the rounding of the weights themselves. Distances come
/// from the sketches, which are right within a factor of 2; the bound allows for it.
/// *Source*: Higham and Mary 2019, "A new approach to probabilistic rounding error analysis", theorem 2.4.
/// *Lifetime*: of both runs.
Relation within_rounding(const trace::RunTrace& left, const trace::RunTrace& right);

/// Bound on the rounding of a parameter's first update.
double update_bound(const trace::RunTrace& run, const trace::Record& weight);

}  // namespace lockstep::compare
