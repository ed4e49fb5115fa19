#include "harness/launch/descriptor.h"

#include <fcntl.h>
#include <unistd.h>

namespace lockstep::launch {

Descriptor::Descriptor(int number) : number_(number) {
  constexpr int kFirst = 3;
  if (number < 0 || number >= kFirst) return;
  number_ = ::fcntl(number, F_DUPFD_CLOEXEC, kFirst);
  ::close(number);
}

void Descriptor::close() {
  if (number_ >= 0) ::close(std::exchange(number_, -1));
}

}  // namespace lockstep::launch
