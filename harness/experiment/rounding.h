#pragma once

#include "harness/experiment/case.h"
#include "harness/experiment/runs.h"

namespace lockstep::experiment {

/// Channels that a check up to rounding holds against each other.
std::vector<trace::Channel> compared_channels(const Case& one, const trace::RunTrace& left,
                                              const trace::RunTrace& right);

/// Those of a check up to rounding that names none.
std::vector<trace::Channel> computed_channels(const Case& one, const trace::RunTrace& left,
                                              const trace::RunTrace& right);

/// Neither precision tells: what looks like rounding, and is more than its bound, is no proof of a mistake.
void leave_open(Case& one, const Control& control, const std::string& why);

/// What is found is none of rounding; in a run of so many ranks.
void rule_out_rounding(Case& one, std::int64_t world_size);

/// Whether rounding could be what a finding shows, so that float64 is worth asking.
bool may_be_rounding(const Case& one, const Runs& runs);

/// Decides by the same trainings in float64 whether a finding is rounding or a mistake, and where the mistake begins.
void climb(Case& one, const Control& control, const Runs& before, const Runs& after);

/// Trainings whose differences all shrink as rounding does compute the same. So a check up to rounding agrees that was
/// left open, or that differs by no more than one sample can do.
void settle_rounding(Case& one, const Control& control, const Runs& before, const Runs& after);

}  // namespace lockstep::experiment
