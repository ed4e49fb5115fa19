#include "harness/launch/process.h"

#include <csignal>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;

/// A shell line as a process in `scratch`, logging to "log".
Process::Command shell(const Scratch& scratch, const std::string& line) {
  return {.program = "/bin/sh",
          .arguments = {"sh", "-c", line},
          .environment = {"PATH=/usr/bin:/bin"},
          .directory = scratch.path(),
          .log = scratch.path() / "log"};
}

Process::Exit wait_for_end(const Process& process) {
  while (true) {
    if (const std::optional<Process::Exit> end = process.poll()) return *end;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

/// Runs a shell line to its end and returns what it wrote.
std::string output_of(const Scratch& scratch, Process::Command command) {
  const Process process(command);
  wait_for_end(process);
  return read_file(scratch.path() / "log");
}

TEST(Process, ReportsCodeAndSignal) {
  const Scratch scratch;
  EXPECT_EQ(wait_for_end(Process(shell(scratch, "exit 7"))).value, 7);
  const Process::Exit end = wait_for_end(Process(shell(scratch, "kill -SEGV $$")));
  EXPECT_TRUE(end.signalled);
  EXPECT_EQ(end.value, SIGSEGV);
}

TEST(Process, OutputAndErrorsGoToTheLogInOrder) {
  const Scratch scratch;
  EXPECT_EQ(output_of(scratch, shell(scratch, "echo a; echo b >&2; echo c; pwd")),
            "a\nb\nc\n" + scratch.path().string() + "\n");
  EXPECT_EQ(output_of(scratch, shell(scratch, "echo again; cat")), "again\n");  // replaced; and input is empty
}

TEST(Process, LeadsASessionAndGroupOfItsOwn) {
  const Scratch scratch;
  const Process process(shell(scratch, "sleep 60"));
  EXPECT_EQ(::getsid(process.pid()), process.pid());
  EXPECT_EQ(::getpgid(process.pid()), process.pid());
}

TEST(Process, InheritsOnlyTheNamedDescriptor) {
  const Scratch scratch;
  const int leaking = ::open("/dev/null", O_RDONLY);  // not close-on-exec, as if our parent had left it to us
  const int wanted = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  Process::Command command = shell(scratch, "for f in /proc/$$/fd/*; do readlink $f; done");
  command.inherited = {wanted};
  const std::string log = (scratch.path() / "log").string();
  EXPECT_EQ(output_of(scratch, command), "/dev/null\n" + log + "\n" + log + "\n/dev/zero\n");
  EXPECT_EQ(::fcntl(wanted, F_GETFD), FD_CLOEXEC);
  ::close(leaking);
  ::close(wanted);
}

TEST(Process, StartsWithNoSignalBlockedOrIgnored) {
  const Scratch scratch;
  sigset_t some;
  sigset_t before;
  ::sigemptyset(&some);
  ::sigaddset(&some, SIGUSR1);
  ::pthread_sigmask(SIG_BLOCK, &some, &before);
  const auto pipe_before = ::signal(SIGPIPE, SIG_IGN);
  const Process process({.program = "/bin/sleep",
                         .arguments = {"sleep", "60"},
                         .directory = scratch.path(),
                         .log = scratch.path() / "log"});
  ::signal(SIGPIPE, pipe_before);
  sigset_t mine;
  ::pthread_sigmask(SIG_SETMASK, &before, &mine);
  EXPECT_TRUE(sigismember(&mine, SIGUSR1));  // starting it has left our own mask alone
  const std::string status = read_file("/proc/" + std::to_string(process.pid()) + "/status");
  EXPECT_NE(status.find("SigBlk:\t0000000000000000\n"), std::string::npos) << status;
  EXPECT_NE(status.find("SigIgn:\t0000000000000000\n"), std::string::npos) << status;
}

TEST(Process, KnowsThatItIsStopped) {
  const Scratch scratch;
  const Process process(shell(scratch, "sleep 60"));
  EXPECT_EQ(process.halt(), Process::Halt::kNone);
  ::kill(process.pid(), SIGSTOP);
  for (int i = 0; i < 100000 && process.halt() == Process::Halt::kNone; ++i)
    std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(process.halt(), Process::Halt::kStopped);
}

TEST(Process, DestructionEndsItAndItsGroup) {
  const Scratch scratch;
  pid_t pid = 0;
  pid_t child = 0;
  {
    const Process process(shell(scratch, "sleep 60 & echo $! > new; mv new child; wait"));
    pid = process.pid();
    child = scratch.pid("", "child");
  }
  EXPECT_EQ(::kill(pid, 0), -1);  // reaped: not even a zombie
  EXPECT_TRUE(gone_within(child, milliseconds(5000)));
}

TEST(Process, FailedExecIsAnInputError) {
  const Scratch scratch;
  Process::Command command = shell(scratch, "");
  command.program = "/nowhere/program";
  const int descriptors = number_of_descriptors(), children = number_of_children();
  EXPECT_THROW(Process{command}, InputError);
  replace_file(scratch.path() / "no-program", "text without an interpreter line");
  ASSERT_EQ(::chmod((scratch.path() / "no-program").c_str(), 0755), 0);
  command.program = scratch.path() / "no-program";
  EXPECT_THROW(Process{command}, InputError);
  EXPECT_EQ(number_of_descriptors(), descriptors);
  EXPECT_LE(number_of_children(), children);
}

TEST(Process, LogWithoutAPlaceIsAResourceError) {
  const Scratch scratch;
  Process::Command command = shell(scratch, "");
  command.log = "/nowhere/log";
  EXPECT_THROW(Process{command}, ResourceError);
}

}  // namespace
}  // namespace lockstep::launch
