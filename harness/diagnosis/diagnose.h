#pragma once

#include "harness/compare/difference.h"
#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Adds causes and patterns to a divergence, and drops causes that control runs refute. Causes already named stay. A
/// divergence without a place in a trace gets none.
void diagnose(const Question& question, compare::Divergence& at);

}  // namespace lockstep::diagnosis
