#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/experiment/case.h"
#include "harness/experiment/control.h"
#include "harness/experiment/scenario_runs.h"

/// Control runs: how a trial is made, and which facts it gives.
namespace lockstep::experiment {

/// How often a run that is believed to come out again has done so.
constexpr std::int64_t kReplays = 4;

/// A trial of another computation. The others ask whether a training comes out again.
constexpr bool computes_otherwise(Trial trial) {
  return trial == Trial::kFloat64 || trial == Trial::kOneState || trial == Trial::kFill;
}

/// Controls of a trial; none if it needs no run.
std::vector<Control> controls_of(Trial trial);

/// The scenario of a control of a trial for the cases of a group that ask for it. *Throws*: InputError if no such
/// training exists.
scenario::Scenario scenario_of(Trial trial, const Control& control, const Group& group,
                               const std::vector<const Case*>& cases);

/// Runs of one scenario by the control that made them. Runs of earlier trials are there as well.
using RunsOf = std::function<Runs(const std::string& control)>;

/// Facts of a trial for one case. `before`: the first runs.
Fact read(Trial trial, const Case& one, const Runs& before, const RunsOf& runs_of);

}  // namespace lockstep::experiment
