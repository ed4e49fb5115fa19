#include "harness/launch/process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/launch/processes.h"

namespace lockstep::launch {
namespace {

/// All that the child needs between fork and exec, where it may neither allocate nor take a lock.
struct Recipe {
  const char* program;
  char* const* arguments;
  char* const* environment;
  const char* directory;
  int input;
  int log;
  const std::vector<int>& inherited;
  int report;
  int descriptor_limit;
  pid_t parent;
};

void close_others_on_exec(const Recipe& recipe) {
  constexpr unsigned kFirst = 3;
  if (::syscall(SYS_close_range, kFirst, ~0U, CLOSE_RANGE_CLOEXEC) != 0) {
    for (int i = kFirst; i < recipe.descriptor_limit; ++i) ::fcntl(i, F_SETFD, FD_CLOEXEC);
  }
  for (const int descriptor : recipe.inherited) ::fcntl(descriptor, F_SETFD, 0);
}

/// The child's half. Only async-signal-safe calls; an exec that fails sends its errno to the parent.
[[noreturn]] void become(const Recipe& recipe) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != recipe.parent) ::_exit(127);  // the parent died before the line above took effect
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &by_default, nullptr);
  const bool ready = ::dup2(recipe.input, STDIN_FILENO) >= 0 && ::dup2(recipe.log, STDOUT_FILENO) >= 0 &&
                     ::dup2(recipe.log, STDERR_FILENO) >= 0 && ::chdir(recipe.directory) == 0;
  if (ready) {
    close_others_on_exec(recipe);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execve(recipe.program, recipe.arguments, recipe.environment);
  }
  const int error = errno;
  [[maybe_unused]] const ssize_t written = ::write(recipe.report, &error, sizeof(error));
  ::_exit(127);
}

/// Forks with every signal blocked, so that no handler of ours runs in the child.
pid_t fork_into(const Recipe& recipe) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) become(recipe);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

Descriptor open_or_throw(const std::filesystem::path& path, int flags) {
  Descriptor file(::open(path.c_str(), flags | O_CLOEXEC, 0644));
  if (!file) {
    throw ResourceError(
        {.what = std::string("cannot open a file for a rank: ") + std::strerror(errno), .where = path.string()});
  }
  return file;
}

[[noreturn]] void throw_start_failure(const Process::Command& command, int error) {
  const Problem problem = {.what = std::string("cannot start a rank: ") + std::strerror(error),
                           .where = command.program.string()};
  const bool machine_gave_out = error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
  if (machine_gave_out) throw ResourceError(problem);
  throw InputError(problem);
}

int descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t kMost = 1 << 20;
  return static_cast<int>(limit.rlim_cur < kMost ? limit.rlim_cur : kMost);
}

/// errno of a failed exec; 0 once the program runs, which closes the pipe.
int read_error(const Descriptor& pipe) {
  int error = 0;
  ssize_t count = 0;
  do {
    count = ::read(pipe.number(), &error, sizeof(error));
  } while (count < 0 && errno == EINTR);
  return count == sizeof(error) ? error : 0;
}

/// Without such a descriptor (old kernel, strict sandbox) the supervisor's tick alone notices the end.
Descriptor end_of(pid_t pid) { return Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))); }

}  // namespace

Descriptor open_log(const Process::Command& command) {
  return open_or_throw(command.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW);
}

Process::Process(pid_t child) : pid_(child), end_(end_of(child)) {}

Process::Process(const Command& command) {
  const Descriptor input = open_or_throw("/dev/null", O_RDONLY);
  const Descriptor log = open_log(command);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_start_failure(command, errno);
  const Descriptor listen(ends[0]);
  Descriptor report(ends[1]);
  const std::vector<char*> arguments = pointers_to(command.arguments);
  const std::vector<char*> environment = pointers_to(command.environment);
  pid_ = fork_into({.program = command.program.c_str(),
                    .arguments = arguments.data(),
                    .environment = environment.data(),
                    .directory = command.directory.c_str(),
                    .input = input.number(),
                    .log = log.number(),
                    .inherited = command.inherited,
                    .report = report.number(),
                    .descriptor_limit = descriptor_limit(),
                    .parent = ::getpid()});
  if (pid_ < 0) throw_start_failure(command, errno);
  report.close();
  if (const int error = read_error(listen); error != 0) {
    reap();
    throw_start_failure(command, error);
  }
  end_ = end_of(pid_);
}

Process::Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, -1)), end_(std::move(other.end_)) {}

Process::~Process() {
  if (pid_ >= 0) reap();
}

std::optional<Process::Exit> Process::poll() const {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  return Exit{.signalled = info.si_code != CLD_EXITED, .value = info.si_status};
}

Process::Halt Process::halt() const {
  const std::optional<ProcessState> state = state_of(pid_);
  if (state && state->letter == 'T') return Halt::kStopped;
  return state && state->letter == 't' ? Halt::kDebugged : Halt::kNone;
}

void Process::kill_group() const {
  ::kill(-pid_, SIGKILL);
  ::kill(pid_, SIGKILL);  // in case that it has left its group
}

void Process::reap() {
  kill_group();
  wait_and_reap(std::exchange(pid_, -1));
  end_.close();
}

}  // namespace lockstep::launch
