#include "harness/launch/interruption.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string>

#include <sys/signalfd.h>
#include <unistd.h>

#include "harness/base/error.h"

namespace lockstep::launch {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool ignored(int signal) {
  struct sigaction action {};
  ::sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

}  // namespace

bool interruption_pending() {
  sigset_t pending;
  ::sigemptyset(&pending);
  ::sigpending(&pending);
  return std::any_of(std::begin(kSignals), std::end(kSignals),
                     [&](int signal) { return ::sigismember(&pending, signal) == 1; });
}

Interruption::Interruption() {
  sigset_t watched;
  ::sigemptyset(&watched);
  for (const int signal : kSignals) {
    if (!ignored(signal)) ::sigaddset(&watched, signal);
  }
  descriptor_ = Descriptor(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_) throw ResourceError({.what = std::string("cannot watch for signals: ") + std::strerror(errno)});
  ::pthread_sigmask(SIG_BLOCK, &watched, &before_);
}

Interruption::~Interruption() {
  while (seen_ && take()) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> Interruption::take() {
  signalfd_siginfo info{};
  if (::read(descriptor_.number(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  seen_ = true;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace lockstep::launch
