#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/compare/difference.h"
#include "harness/scenario/scenario.h"

/// Control runs: a finding that is open or unexplained runs again with one thing changed.
namespace lockstep::experiment {

/// The one thing that a control run changes in every variant.
struct Control {
  std::string id;  ///< also the folder of its runs
  Json patch;      ///< merged into a variant: {"train": …, "launch": …}
  std::int64_t repeats = 1;
  bool one_start =
      false;  ///< start all variants from the same weights, if their initial weights differ only by kernels
};

/// Changes nothing.
Control unchanged(std::string_view id, std::int64_t repeats = 1);

/// Fill fresh memory with a pattern, or with another one. LibTorch's own fill, part of deterministic algorithms, is off
/// because it would overwrite the pattern.
Control filled();
Control filled_otherwise();

/// The control, with a step's operators and a record's elements captured in every variant.
Control looking_at(Control control, const compare::Divergence& at);

/// The same, with all records of the step and channel captured.
Control looking_around(Control control, const compare::Divergence& at);

/// Computes everything in float64: rounding shrinks by about 2^29, a mistake stays.
Control in_float64();

/// The scenario without checks, under a control, with these variants and those whose checkpoints they load.
scenario::Scenario under(const Control& control, const scenario::Scenario& scenario,
                         const std::vector<std::string>& variants);

}  // namespace lockstep::experiment
