#pragma once

#include <optional>

#include <signal.h>

#include "harness/launch/descriptor.h"

namespace lockstep::launch {

/// While it lives, SIGINT and SIGTERM wait in a descriptor instead of ending this process.
///
/// A signal that was ignored before stays ignored (a job in the background of a shell, nohup).
class Interruption {
 public:
  /// *Throws*: ResourceError.
  Interruption();

  /// Puts everything back. After a first signal, later ones are swallowed: the user has been heard, and the report that
  /// follows must not die of impatience. One that nobody has seen yet is delivered as ever.
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Becomes readable when a signal waits.
  int descriptor() const { return descriptor_.number(); }

  /// The first signal that came, if any.
  std::optional<int> seen();

 private:
  std::optional<int> take();

  sigset_t before_;
  Descriptor descriptor_;
  std::optional<int> first_;
};

}  // namespace lockstep::launch
