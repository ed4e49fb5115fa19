#pragma once

#include <string>

#include "harness/experiment/case.h"
#include "harness/experiment/runs.h"

/// Conclusions from replays: runs of both sides with nothing changed.
namespace lockstep::experiment {

/// Marks a finding as non-reproducible: two runs of `variant` differ at `where`.
void call_random(Case& one, const compare::Divergence& where, const std::string& variant);

/// Decides whether each side of the finding reproduces.
void judge_replay(Case& one, const Control& control, const Runs& before, const Runs& again);

/// Judges more replays: a side that reproduced once must do so each time; one that did not may have been disturbed
/// once.
void judge_often(Case& one, const Control& control, const Runs& before, const Runs& often);

/// Decides whether two more runs of the non-reproducible side differ, and where.
void judge_pair(Case& one, const Control& control, const Runs& twice);

}  // namespace lockstep::experiment
