#pragma once

#include "harness/experiment/case.h"
#include "harness/experiment/runs.h"

namespace lockstep::experiment {

/// Whether rounding could be what a finding shows, so that float64 is worth asking.
bool may_be_rounding(const Case& one, const Runs& runs);

/// Decides by the same trainings in float64 whether a finding is rounding or a mistake, and where the mistake begins.
void climb(Case& one, const Control& control, const Runs& before, const Runs& after);

/// Trainings whose differences all shrink as rounding does compute the same. So a check up to rounding agrees that was
/// left open, or that differs by no more than one sample can do.
void settle_rounding(Case& one, const Control& control, const Runs& before, const Runs& after);

}  // namespace lockstep::experiment
