#pragma once

#include "harness/experiment/case.h"
#include "harness/experiment/runs.h"

namespace lockstep::experiment {

/// Channels that a check up to rounding holds against each other. `all`: of runs that record all that is computed.
std::vector<trace::Channel> compared_channels(const Case& one, const trace::RunTrace& left,
                                              const trace::RunTrace& right, bool all = false);

/// Nothing tells whether it is rounding. What must be equal is red all the same.
void leave_open(Case& one, const Control& control, const std::string& why);

/// What is found is none of rounding; in a run of so many ranks.
void rule_out_rounding(Case& one);

/// Whether rounding could be what a finding shows, so that float64 is worth asking.
bool may_be_rounding(const Case& one, const Runs& runs);

/// Decides by the same trainings in float64 whether a finding is rounding or a mistake, and where the mistake begins.
void climb(Case& one, const Control& control, const Runs& before, const Runs& after);

/// Trainings whose differences all shrink as rounding does compute the same, if each of their steps does: a check up to
/// rounding that was left open, or that differs by no more than one sample can do, agrees or asks for that.
void settle_rounding(Case& one, const Control& control, const Runs& before, const Runs& after);

}  // namespace lockstep::experiment
