#include "harness/launch/foreground.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>

#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/launch/interruption.h"

namespace lockstep::launch {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

pid_t spawn(const std::filesystem::path& program, std::vector<std::string> arguments, const Environment& environment,
            const sigset_t& mask) {
  std::vector<std::string> block = environment_block(environment, false);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int error = ::posix_spawn(&pid, program.c_str(), nullptr, &attributes, pointers_to(arguments).data(),
                                  pointers_to(block).data());
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) return pid;
  const Problem problem{.what = std::string("the command cannot be started: ") + std::strerror(error),
                        .where = program.string()};
  if (error == EAGAIN || error == ENOMEM) throw ResourceError(problem);
  throw InputError(problem);
}

/// Whether the terminal has sent its Ctrl-C to the command as well.
bool shares_a_terminal() { return ::tcgetpgrp(STDIN_FILENO) == ::getpgrp(); }

}  // namespace

int run_in_foreground(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                      const Environment& environment) {
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  Interruption interruption;
  const pid_t pid = spawn(program, arguments, environment, before);
  const Descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  bool forwarded = false;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    pollfd descriptors[] = {{.fd = ended.number(), .events = POLLIN, .revents = 0},
                            {.fd = forwarded ? -1 : interruption.descriptor(), .events = POLLIN, .revents = 0}};
    constexpr int kTick_ms = 100;  // where the kernel has no such descriptor
    ::poll(descriptors, 2, kTick_ms);
    const std::optional<int> signal = forwarded ? std::nullopt : interruption.take();
    if (!signal) continue;
    forwarded = true;
    if (*signal != SIGINT || !shares_a_terminal()) ::kill(pid, *signal);
  }
  constexpr int kSignalled = 128;  // as a shell says it
  return WIFSIGNALED(status) ? kSignalled + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace lockstep::launch
