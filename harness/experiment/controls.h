#pragma once

#include <string>
#include <vector>

#include "harness/experiment/control.h"

namespace lockstep::blaming {

using experiment::Control;

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

}  // namespace lockstep::blaming
