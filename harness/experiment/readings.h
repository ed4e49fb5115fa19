#pragma once

#include <vector>

#include "harness/experiment/case.h"
#include "harness/experiment/scenario_runs.h"

/// Reads facts out of control runs. Nothing is decided here. `before`: the first runs of the scenario.
namespace lockstep::experiment {

/// Channels that a check up to rounding compares. `all`: for runs that record everything they compute.
std::vector<trace::Channel> compared_channels(const Case& one, const trace::RunTrace& left,
                                              const trace::RunTrace& right, bool all = false);

Replay read_replay(const Case& one, const Runs& before, const Runs& again);

/// `after`: the runs in float64.
Float64 read_float64(const Case& one, const Runs& before, const Runs& after);

ReplayOften read_replay_often(const Case& one, const Runs& before, const Runs& often);
ReplayTwice read_replay_twice(const Case& one, const Runs& twice);
ReplayThere read_replay_there(const Case& one, const Runs& there);

/// `trials`: runs with one pattern in fresh memory and with another, in turns.
std::vector<Filled> read_fill(const Case& one, const std::vector<Runs>& trials);

}  // namespace lockstep::experiment
