#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/experiment/control.h"
#include "harness/experiment/runs.h"

/// Weights are drawn in float32, whatever the precision of a training, and other kernels round them otherwise. What two
/// trainings compute from there on is apart by as much in float64, unless they begin with the weights of one.
namespace lockstep::experiment {

/// Trainings of one scenario that draw their first weights alike but for rounding.
struct Start {
  std::string of;                   ///< variant whose weights all of them can begin with
  std::vector<std::string> others;  ///< variants that draw other bits
  std::filesystem::path weights;    ///< file of `of`'s weights; empty: they were not captured
};

/// The starts that these variants have in common. Those that load a checkpoint begin with its weights, and are left
/// alone.
std::vector<Start> starts_of(const scenario::Scenario& scenario, const std::vector<std::string>& variants,
                             const Runs& runs);

/// The control, with the first weights of every variant captured.
Control looking_at_start(Control control);

/// Where a run's captured first weights are; empty where they are not.
std::filesystem::path captured_start(const Runs& runs, const std::string& variant);

/// The scenario, in which the others load the weights that were captured.
scenario::Scenario from_one_start(scenario::Scenario scenario, const std::vector<Start>& starts);

}  // namespace lockstep::experiment
