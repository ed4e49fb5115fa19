#pragma once

#include "harness/launch/descriptor.h"

namespace lockstep::launch {

/// A pipe whose write end only this process holds. A reader sees it close when this process dies, for any reason and
/// through any number of programs in between.
class Lifeline {
 public:
  /// *Throws*: ResourceError.
  Lifeline();

  /// The end that ranks inherit. It has close-on-exec set.
  int read_end() const { return read_.number(); }

 private:
  Descriptor read_;
  Descriptor write_;
};

/// Kills this process (SIGKILL) once the write end of the pipe `descriptor` closes. Returns at once; a thread watches.
/// Does nothing if `descriptor` is not a pipe, because a program in between may have closed it.
/// *Throws*: std::system_error if no thread can be started.
void die_with(int descriptor);

}  // namespace lockstep::launch
