#pragma once

#include <optional>

#include "harness/compare/difference.h"
#include "harness/compare/ladder.h"
#include "harness/scenario/scenario.h"

namespace lockstep::compare {

/// A run and what it was asked to compute.
struct Training {
  const trace::RunTrace& run;
  const scenario::Promises& promises;
};

/// Where two trainings first part by far more than rounding can make, however little of it is left in float64: what is
/// done in float32 alone shrinks there as well.
///
/// Looked at is only what no kink of a ReLU moves and no small divisor amplifies, while all that came before is
/// explained: losses, gradients of the last layer, or of all where no activation has a kink, updates of SGD by
/// gradients that are explained; and what one side alone makes of the ranks' own gradients in the reduction
/// (laws/reduction.h). "Far": 16 times the bound of RoundingBound, or more than float64 lets expect
/// (PrecisionLadder::within_rounding_of_step). Nothing where all of it may be rounding. `channels`: those that the two
/// are to have in common. Place and relation are filled in, no cause.
std::optional<Divergence> beyond_rounding(const Training& left, const Training& right, const PrecisionLadder& ladder,
                                          const std::vector<trace::Channel>& channels);

}  // namespace lockstep::compare
