#pragma once

#include <string>

#include "harness/experiment/case.h"
#include "harness/experiment/runs.h"

/// What a case is told by runs of its sides that nothing was changed in.
namespace lockstep::experiment {

/// A finding is random, by two runs of a variant that part there.
void call_random(Case& one, const compare::Divergence& where, const std::string& variant);

/// Whether each run that the finding is about comes out again.
void judge_replay(Case& one, const Control& control, const Runs& before, const Runs& again);

/// A side that came out again must do so each time; one that did not may have been disturbed once.
void judge_often(Case& one, const Control& control, const Runs& before, const Runs& often);

/// Whether two more runs of the side that is random part, and where.
void judge_pair(Case& one, const Control& control, const Runs& twice);

}  // namespace lockstep::experiment
