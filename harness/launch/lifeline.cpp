#include "harness/launch/lifeline.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/base/error.h"

namespace lockstep::launch {
namespace {

bool is_pipe(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode);
}

/// No one ever writes, so the only event is the end of the last writer.
void await_end(int descriptor) {
  pollfd watched{.fd = descriptor, .events = 0, .revents = 0};
  while (::poll(&watched, 1, -1) < 0 && errno == EINTR) {
  }
}

}  // namespace

Lifeline::Lifeline() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw ResourceError({.what = std::string("cannot make a pipe for the ranks: ") + std::strerror(errno)});
  }
  read_ = Descriptor(ends[0]);
  write_ = Descriptor(ends[1]);
}

void die_with(int descriptor) {
  if (!is_pipe(descriptor)) return;
  std::thread([descriptor] {
    await_end(descriptor);
    ::kill(::getpid(), SIGKILL);
  }).detach();
}

}  // namespace lockstep::launch
