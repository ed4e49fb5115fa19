#pragma once

#include "harness/experiment/case.h"
#include "harness/experiment/runs.h"

namespace lockstep::experiment {

/// Channels that a check up to rounding compares. `all`: for runs that record everything they compute.
std::vector<trace::Channel> compared_channels(const Case& one, const trace::RunTrace& left,
                                              const trace::RunTrace& right, bool all = false);

/// Leaves a case undecided between rounding and a mistake. A check `equal` stays red.
void leave_open(Case& one, const Control& control, const std::string& why);

/// Records that a finding is not rounding.
void rule_out_rounding(Case& one);

/// Whether a finding may be rounding, so that a run in float64 is worth its time.
bool may_be_rounding(const Case& one, const Runs& runs);

/// Decides by float64 runs whether a finding is rounding or a mistake, and where the mistake begins.
void climb(Case& one, const Control& control, const Runs& before, const Runs& after);

/// Decides a check up to rounding that is open, or that differs by no more than one sample's effect. The trainings
/// agree if all differences shrink like rounding and each single step agrees too; the case then asks for single steps.
void settle_rounding(Case& one, const Control& control, const Runs& before, const Runs& after);

}  // namespace lockstep::experiment
