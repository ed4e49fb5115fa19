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

/// The first difference of two trainings that is far larger than rounding, although it shrinks in float64: a mistake
/// made in float32 only shrinks there too. Nothing if all of it may be rounding.
///
/// Only records are used that no kink of a ReLU moves and no small divisor amplifies, and only as long as rounding
/// explains everything before them: losses; gradients of the last layer, or of all layers if no activation has a kink;
/// updates of SGD by explained gradients; reductions that do not follow from the ranks' own gradients on one side only
/// (laws/reduction.h). "Far larger" is 16 times the bound of RoundingBound, or more than float64 predicts
/// (PrecisionLadder::within_rounding_of_step). `channels`: those that both must share. Place and relation are filled
/// in, no cause.
std::optional<Divergence> beyond_rounding(const Training& left, const Training& right, const PrecisionLadder& ladder,
                                          const std::vector<trace::Channel>& channels);

}  // namespace lockstep::compare
