#pragma once

#include <optional>

#include <signal.h>

#include "harness/launch/descriptor.h"

namespace lockstep::launch {

/// Whether a signal waits for an Interruption to read it.
bool interruption_pending();

/// While it lives, SIGINT and SIGTERM make a descriptor readable instead of ending this process.
///
/// A signal that was ignored before stays ignored (nohup, background jobs of a shell).
class Interruption {
 public:
  /// *Throws*: ResourceError.
  Interruption();

  /// Restores the signal mask. A signal that was not read yet is then delivered as usual. If one was read, later
  /// ones are dropped, so that a second Ctrl-C cannot end the report that follows.
  ~Interruption();
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  /// Readable while a signal is pending.
  int descriptor() const { return descriptor_.number(); }

  /// The next signal that was not taken yet, if any.
  std::optional<int> take();

 private:
  sigset_t before_;
  Descriptor descriptor_;
  bool seen_ = false;  ///< one
};

}  // namespace lockstep::launch
