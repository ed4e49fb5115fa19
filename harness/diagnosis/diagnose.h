#pragma once

#include "harness/compare/difference.h"
#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// Names the causes of a divergence and what is regular about it, and drops causes that control runs have refuted.
/// What is named already stays. Nothing is named of a divergence without a place in a trace.
void diagnose(const Question& question, compare::Divergence& at);

}  // namespace lockstep::diagnosis
