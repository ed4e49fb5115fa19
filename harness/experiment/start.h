#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/experiment/control.h"
#include "harness/experiment/runs.h"

/// First weights are drawn in float32, whatever the precision of a training, and different kernels round them
/// differently. Two trainings then differ by as much in float64, unless both start from the weights of one.
namespace lockstep::experiment {

/// Trainings of one scenario whose first weights are equal up to rounding.
struct Start {
  std::string of;                   ///< variant whose weights all of them can start from
  std::vector<std::string> others;  ///< variants that draw other bits
  std::filesystem::path weights;    ///< file of `of`'s weights; empty: they were not captured
};

/// The starts that these variants share. A variant that loads a checkpoint has its weights already.
std::vector<Start> starts_of(const scenario::Scenario& scenario, const std::vector<std::string>& variants,
                             const Runs& runs);

/// The control, with the first weights of every variant captured.
Control looking_at_start(Control control);

/// Where a run's captured first weights are; empty where they are not.
std::filesystem::path captured_start(const Runs& runs, const std::string& variant);

/// The scenario with the other variants loading the captured weights.
scenario::Scenario from_one_start(scenario::Scenario scenario, const std::vector<Start>& starts);

}  // namespace lockstep::experiment
