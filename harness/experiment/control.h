#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/compare/difference.h"
#include "harness/scenario/scenario.h"

/// A finding that is left open, or that nobody understands, is tried again with one thing changed.
namespace lockstep::experiment {

/// The one thing that a control run changes in every variant.
struct Control {
  std::string id;  ///< also the folder of its runs
  Json patch;      ///< merged into a variant: {"train": …, "launch": …}
  std::int64_t repeats = 1;
  bool one_start = false;  ///< all variants start from the same weights, if only kernels made them differ
};

/// Nothing changed: what does not come out again is no property of the training.
Control replay();

/// The same, for another place to look at.
Control replay_there();

/// The same some times more, not looked at closely.
Control replay_often(std::int64_t times);

/// The same, twice.
Control replay_twice();

/// With a pattern in all memory that nobody has set, and with another one. LibTorch's own fill, which comes with
/// deterministic algorithms, would write over it.
Control filled();
Control filled_otherwise();

/// The control, with the operators of a step and the elements of a record looked at in every variant.
Control looking_at(Control control, const compare::Divergence& at);

/// The same of all records of its step and channel.
Control looking_around(Control control, const compare::Divergence& at);

/// Everything computed in float64: rounding shrinks by about 2^29, a mistake stays.
Control in_float64();

/// A control that `lockstep blame` tries on both sides: it removes one source of different bits, or stirs it.
struct NamedControl {
  enum class Kind {
    kSameTraining,
    kAnotherTraining,  ///< cannot be compared with a golden
    kSameState,        ///< both sides do the step of the difference from one state, whatever went before
  };
  Control control;
  std::string meaning;  ///< "one thread per rank"
  Kind kind = Kind::kSameTraining;

  /// As --vary has it: "threads".
  const std::string& name() const { return control.id; }
};
const std::vector<NamedControl>& controls();

/// The controls that a list such as "threads,isa", "+threads" or "-isa" leaves: named ones only, or all but those
/// with '-'. *Throws*: InputError for a name that is none.
std::vector<NamedControl> chosen_controls(const std::string& list);

/// The scenario's variants of these names, and those whose checkpoints they load, under a control; no checks.
scenario::Scenario under(const Control& control, const scenario::Scenario& scenario,
                         const std::vector<std::string>& variants);

}  // namespace lockstep::experiment
