#pragma once

#include "harness/compare/difference.h"
#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Whether a finding came out the same when its runs were repeated.
enum class Again { kNotTried, kSame, kOnceOtherwise, kEachTimeOtherwise };

/// Observations of a divergence, made by control runs or by comparing the ranks of one run.
struct Tried {
  bool is_no_rounding = false;  ///< rounding does not explain it
  Again again = Again::kNotTried;
};

/// Adds causes and patterns to a divergence, and drops causes that control runs refute. Causes already named stay. A
/// divergence without a place in a trace gets none.
void diagnose(const Question& question, compare::Divergence& at, const Tried& tried);

}  // namespace lockstep::diagnosis
