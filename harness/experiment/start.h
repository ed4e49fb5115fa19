#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/experiment/control.h"
#include "harness/experiment/scenario_runs.h"

/// Initial weights are drawn in float32 at any training precision, and different kernels round them differently. Two
/// trainings then differ as much in float64, unless both start from the same weights.
namespace lockstep::experiment {

/// Variants whose initial weights are equal up to rounding.
struct Start {
  std::string of;                   ///< variant whose weights all of them use
  std::vector<std::string> others;  ///< variants that draw other bits
  std::filesystem::path weights;    ///< file with the weights of `of`; empty if not captured
};

/// Groups of variants with a common start. A variant that loads a checkpoint needs none.
std::vector<Start> starts_of(const scenario::Scenario& scenario, const std::vector<std::string>& variants,
                             const Runs& runs);

/// The control, with every variant's initial weights captured.
Control looking_at_start(Control control);

/// File of a run's captured initial weights; empty if there is none.
std::filesystem::path captured_start(const Runs& runs, const std::string& variant);

/// The scenario with the other variants loading the captured weights.
scenario::Scenario from_one_start(scenario::Scenario scenario, const std::vector<Start>& starts);

}  // namespace lockstep::experiment
