#pragma once

#include <optional>

#include "harness/compare/difference.h"
#include "harness/compare/ladder.h"
#include "harness/scenario/scenario.h"

namespace lockstep::compare {

/// A run and what it promises.
struct Training {
  const trace::RunTrace& run;
  const scenario::Promises& promises;
};

/// Whether an activation of one of two models has a kink, or may have one.
bool have_kinks(const scenario::Promises& left, const scenario::Promises& right);

/// First difference between two trainings that is far larger than rounding, although it shrinks in float64. A mistake
/// made only in float32 shrinks there too. Nothing if rounding may explain every difference.
///
/// The search uses only records that a ReLU kink cannot move and a small divisor cannot amplify:
/// - losses;
/// - gradients of the last layer, or of all layers if no activation has a kink;
/// - SGD updates whose gradients rounding explains;
/// - reductions that break the reduction law (laws/reduction.h) on one side only.
///
/// Rounding must explain every difference before such a record.
///
/// "Far larger" means 16 times RoundingBound, or more than float64 predicts (PrecisionLadder::within_rounding_of_step).
/// `channels`: those that both sides must share. The result has a place and a relation, but no cause.
std::optional<Divergence> beyond_rounding(const Training& left, const Training& right, const PrecisionLadder& ladder,
                                          const std::vector<trace::Channel>& channels);

}  // namespace lockstep::compare
