#pragma once

#include "harness/launch/descriptor.h"

namespace lockstep::launch {

/// A pipe whose write end no other process holds: who reads from it learns of this process's death, whatever kills it
/// and however many programs stand in between.
class Lifeline {
 public:
  /// *Throws*: ResourceError.
  Lifeline();

  /// The end that ranks inherit. Closed on exec unless told otherwise.
  int read_end() const { return read_.number(); }

 private:
  Descriptor read_;
  Descriptor write_;
};

/// Kills this process (SIGKILL) as soon as the write end of the pipe `descriptor` is closed. Returns at once; a thread
/// watches. Does nothing when `descriptor` is no pipe: a program in between has closed what it did not know.
/// *Throws*: std::system_error when no thread can be started.
void die_with(int descriptor);

}  // namespace lockstep::launch
