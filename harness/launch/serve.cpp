#include "harness/launch/serve.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness/base/build_id.h"
#include "harness/launch/fork_request.h"
#include "harness/launch/variables.h"

namespace lockstep::launch {
namespace {

constexpr const char* kFlag = "--serve";

/// Memory that the system shows of a process (/proc/<pid>/cmdline, environ), as it was laid out before the program
/// began.
struct Shown {
  char* begin = nullptr;
  std::size_t room = 0;

  void show(std::string_view text) const {
    if (room == 0) return;
    std::memset(begin, 0, room);
    std::memcpy(begin, text.data(), std::min(text.size(), room - 1));
  }
};

Shown shown_arguments(int argc, char** argv) {
  char* const end = argv[argc - 1] + std::strlen(argv[argc - 1]) + 1;  // they lie one behind the other
  return {.begin = argv[0], .room = static_cast<std::size_t>(end - argv[0])};
}

Shown shown_run_id() {
  char* const value = std::getenv(kRunIdVariable);
  return value == nullptr ? Shown{} : Shown{.begin = value, .room = std::strlen(value) + 1};
}

bool has_one_thread() {
  DIR* const tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return false;
  int threads = 0;
  while (const dirent* const task = ::readdir(tasks)) threads += task->d_name[0] == '.' ? 0 : 1;
  ::closedir(tasks);
  return threads == 1;
}

/// Waits until the process between the server and this one has ended, so that the supervisor is our parent.
bool becomes_child_of(pid_t supervisor, pid_t between) {
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 20'000};
  while (::getppid() == between) ::nanosleep(&kPause, nullptr);
  return ::getppid() == supervisor;
}

/// Gives each descriptor its number. Refuses one that the program uses for itself.
bool place_descriptors(ForkDescriptors& descriptors, const std::vector<int>& numbers) {
  const int above = numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end()) + 1;
  for (Descriptor& descriptor : descriptors.inherited) {
    const int moved = ::fcntl(descriptor.number(), F_DUPFD_CLOEXEC, above);
    if (moved < 0) return false;
    descriptor = Descriptor(moved);
  }
  if (descriptors.report.number() < above) {
    const int moved = ::fcntl(descriptors.report.number(), F_DUPFD_CLOEXEC, above);
    if (moved < 0) return false;
    descriptors.report = Descriptor(moved);
  }
  descriptors.log.close();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (::fcntl(numbers[i], F_GETFD) >= 0 || ::dup2(descriptors.inherited[i].number(), numbers[i]) < 0) return false;
  }
  descriptors.inherited.clear();
  return true;
}

/// The variables of a rank; they live as long as it does.
void set_environment(std::vector<std::string> environment) {
  static std::vector<std::string> variables;
  static std::vector<char*> pointers;
  variables = std::move(environment);
  pointers.clear();
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  environ = pointers.data();
}

void show_itself(const ForkRequest& request, const Shown& arguments, const Shown& run_id) {
  std::string command;
  for (const std::string& argument : request.arguments) (command += argument) += '\0';
  arguments.show(command);
  const std::string name = environment_entry(kRunIdVariable, "");
  for (const std::string& variable : request.environment)
    if (variable.starts_with(name)) run_id.show(std::string_view(variable).substr(name.size()));
}

/// The forked process becomes the rank. The order is that of Process, which executes.
bool become(const ForkRequest& request, ForkDescriptors& descriptors, pid_t between) {
  if (!becomes_child_of(request.supervisor, between)) return false;
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != request.supervisor) return false;  // it died before the line above took effect
  const int log = descriptors.log.number();
  const bool ready = ::dup2(log, STDOUT_FILENO) >= 0 && ::dup2(log, STDERR_FILENO) >= 0 &&
                     ::chdir(request.directory.c_str()) == 0 && place_descriptors(descriptors, request.inherited);
  if (!ready) return false;
  set_environment(request.environment);
  const pid_t rank = ::getpid();
  const bool told = ::write(descriptors.report.number(), &rank, sizeof rank) == sizeof rank;
  descriptors.report.close();
  return told;  // else it would run without supervision
}

}  // namespace

bool asked_to_serve(int argc, char** argv) { return argc > 2 && std::string_view(argv[1]) == kFlag; }

int serve(int argc, char** argv, int (*rank)(int argc, char** argv)) {
  const int socket = static_cast<int>(std::strtol(argv[2], nullptr, 10));
  const Shown arguments = shown_arguments(argc, argv), run_id = shown_run_id();
  while (std::optional<ReceivedRequest> received = receive_request(socket)) {
    ForkRequest& request = received->request;
    if (request.build != build_id() || !has_one_thread()) continue;  // the report's end says no
    // The rank is the child of a child that ends at once, so it becomes the supervisor's.
    const pid_t between = ::fork();
    if (between > 0) {
      ::waitpid(between, nullptr, 0);
    } else if (between == 0) {
      const pid_t server_child = ::getpid();
      if (::fork() != 0) ::_exit(0);
      ::close(socket);
      show_itself(request, arguments, run_id);
      if (!become(request, received->descriptors, server_child)) ::_exit(127);
      std::vector<char*> own;
      for (std::string& argument : request.arguments) own.push_back(argument.data());
      own.push_back(nullptr);
      return rank(static_cast<int>(own.size()) - 1, own.data());
    }
  }
  return 0;
}

std::vector<std::string> serving_arguments(const std::string& program, int socket) {
  constexpr std::size_t kRoom = 512;
  return {program, kFlag, std::to_string(socket), std::string(kRoom, ' ')};
}

std::string serving_run_id() {
  constexpr std::size_t kRoom = 64;
  return environment_entry(kRunIdVariable, std::string(kRoom, '-'));
}

}  // namespace lockstep::launch
