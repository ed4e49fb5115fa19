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

namespace lockstep::launch {
namespace {

/// The run's id where /proc/<pid>/environ shows it: its text was put there before the program began.
class ShownRunId {
 public:
  static constexpr const char* kName = "LOCKSTEP_RUN_ID";

  ShownRunId() : text_(std::getenv(kName)), room_(text_ == nullptr ? 0 : std::strlen(text_)) {}

  /// Shows the id among `environment`, so that processes which a rank leaves behind are found by it.
  void show(const std::vector<std::string>& environment) const {
    const std::string start = std::string(kName) + "=";
    for (const std::string& variable : environment) {
      if (!variable.starts_with(start)) continue;
      const std::string_view id = std::string_view(variable).substr(start.size());
      if (id.size() > room_) return;
      std::memset(text_, 0, room_);
      std::memcpy(text_, id.data(), id.size());
    }
  }

 private:
  char* text_;
  std::size_t room_;
};

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

/// The forked process becomes the rank. The order is that of Process, which executes.
bool become(const ForkRequest& request, ForkDescriptors& descriptors, pid_t between, const ShownRunId& shown) {
  if (!becomes_child_of(request.supervisor, between)) return false;
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != request.supervisor) return false;  // it died before the line above took effect
  const int log = descriptors.log.number();
  const bool ready = ::dup2(log, STDOUT_FILENO) >= 0 && ::dup2(log, STDERR_FILENO) >= 0 &&
                     ::chdir(request.directory.c_str()) == 0 && place_descriptors(descriptors, request.inherited);
  if (!ready) return false;
  shown.show(request.environment);
  set_environment(request.environment);
  const ForkReport report{.rank = ::getpid()};
  const bool told = ::write(descriptors.report.number(), &report, sizeof report) == sizeof report;
  descriptors.report.close();
  return told;  // else nobody would supervise it
}

}  // namespace

int serve(int socket, int (*rank)(int argc, char** argv)) {
  const ShownRunId shown;
  while (std::optional<ReceivedRequest> received = receive_request(socket)) {
    if (received->request.build != build_id() || !has_one_thread()) continue;  // the report's end says no
    // The rank is the child of a child that ends at once, so it becomes the supervisor's.
    const pid_t between = ::fork();
    if (between > 0) {
      ::waitpid(between, nullptr, 0);
    } else if (between == 0) {
      const pid_t server_child = ::getpid();
      if (::fork() != 0) ::_exit(0);
      ::close(socket);
      if (!become(received->request, received->descriptors, server_child, shown)) ::_exit(127);
      std::vector<char*> arguments;
      for (std::string& argument : received->request.arguments) arguments.push_back(argument.data());
      arguments.push_back(nullptr);
      return rank(static_cast<int>(arguments.size()) - 1, arguments.data());
    }
  }
  return 0;
}

}  // namespace lockstep::launch
