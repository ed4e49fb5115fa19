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

/// Changes nothing. A finding that does not reproduce is no property of the training.
Control replay();

/// The same, with another place captured.
Control replay_there();

/// Several replays without captures.
Control replay_often(std::int64_t times);

/// Two replays.
Control replay_twice();

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

/// A control that `lockstep blame` runs on both sides. It removes or varies one source of different bits.
struct NamedControl {
  enum class Kind {
    kSameTraining,
    kAnotherTraining,  ///< cannot be compared with a golden
    kSameState,        ///< both sides run the differing step from one state, so earlier steps do not matter
  };
  Control control;
  std::string meaning;  ///< "one thread per rank"
  Kind kind = Kind::kSameTraining;

  /// Its name for --vary: "threads".
  const std::string& name() const { return control.id; }
};
const std::vector<NamedControl>& controls();

/// Controls chosen by a list such as "threads,isa", "+threads" or "-isa": only the named ones, or all except those with
/// '-'. *Throws*: InputError for an unknown name.
std::vector<NamedControl> chosen_controls(const std::string& list);

/// The scenario without checks, under a control, with these variants and those whose checkpoints they load.
scenario::Scenario under(const Control& control, const scenario::Scenario& scenario,
                         const std::vector<std::string>& variants);

}  // namespace lockstep::experiment
