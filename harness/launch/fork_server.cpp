#include "harness/launch/fork_server.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/base/build_id.h"
#include "harness/base/error.h"
#include "harness/launch/fork_request.h"
#include "harness/launch/interruption.h"
#include "harness/launch/patience.h"
#include "harness/launch/place.h"
#include "harness/launch/processes.h"
#include "harness/launch/serve.h"
#include "harness/launch/variables.h"

namespace lockstep::launch {
namespace {

/// One for the usual environment, and some for control runs that change it. An idle one holds memory.
constexpr std::size_t kMostServers = 4;

/// Time to fork, from when the program is loaded.
constexpr std::chrono::seconds kLimit{30};

/// How soon Ctrl-C ends that time.
constexpr int kLook_ms = 20;

/// Ranks of one server share the program, and the environment apart from their place.
std::vector<std::string> key_of(const Process::Command& command) {
  std::vector<std::string> key = {command.program.string()};
  for (const std::string& variable : command.environment) {
    Environment one{{variable.substr(0, variable.find('=')), ""}};
    forget_place(one);
    one.erase(kRunIdVariable);
    if (!one.empty()) key.push_back(variable);
  }
  return key;
}

bool is_stopped(pid_t server) {
  const std::optional<ProcessState> state = state_of(server);
  return state && state->letter == 'T';
}

/// The rank that reports to the other end, once it runs; nothing if that end is closed, the server takes too long or is
/// stopped, or somebody ends us.
std::optional<pid_t> read_rank_id(const Descriptor& pipe, pid_t server, std::chrono::milliseconds stopped_limit) {
  using Time = Patience::Time;
  pollfd watched{.fd = pipe.number(), .events = POLLIN, .revents = 0};
  Patience patience(Time::clock::now());
  std::optional<Time> stopped_at;
  while (::poll(&watched, 1, kLook_ms) <= 0) {
    const Time now = Time::clock::now();
    patience.pass(now);
    if (interruption_pending() || patience.is_over(kLimit, {{.pid = server, .loads = true}})) return std::nullopt;
    if (!is_stopped(server)) {
      stopped_at.reset();
    } else if (now - stopped_at.value_or(now) >= stopped_limit) {
      return std::nullopt;
    } else if (!stopped_at) {
      stopped_at = now;
    }
  }
  pid_t rank = 0;
  if (::read(pipe.number(), &rank, sizeof rank) != sizeof rank) return std::nullopt;
  return rank;
}

}  // namespace

bool is_binary(const std::filesystem::path& program) {
  std::ifstream file(program, std::ios::binary);
  char magic[4] = {};
  return file.read(magic, sizeof magic) && std::memcmp(magic, "\177ELF", sizeof magic) == 0;
}

ForkServers::Server& ForkServers::server_for(const Process::Command& command, std::int64_t group) {
  const std::vector<std::string> key = key_of(command);
  const auto known = std::find_if(servers_.begin(), servers_.end(),
                                  [&](const Server& one) { return one.group == group && one.key == key; });
  if (known != servers_.end()) {
    servers_.splice(servers_.begin(), servers_, known);
    return servers_.front();
  }
  if (servers_.size() == kMostServers) servers_.pop_back();
  Server& server = servers_.emplace_front(Server{.group = group, .key = key});
  int ends[2];
  if (!is_binary(command.program) || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return server;
  server.socket = Descriptor(ends[0]);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(stopped_limit_);
  const timeval limit{.tv_sec = seconds.count(), .tv_usec = 0};  // a request may be larger than the socket's memory
  ::setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
  const Descriptor theirs(ends[1]);
  std::vector<std::string> environment(key.begin() + 1, key.end());
  environment.push_back(serving_run_id());
  try {
    server.process.emplace(Process::Command{.program = command.program,
                                            .arguments = serving_arguments(command.arguments.front(), theirs.number()),
                                            .environment = std::move(environment),
                                            .directory = "/",
                                            .log = "/dev/null",
                                            .inherited = {theirs.number()}});
  } catch (const Error&) {  // whoever executes the program instead meets the same error, and reports it
  }
  return server;
}

std::optional<Process> ForkServers::fork(const Process::Command& command, std::int64_t group) {
  Server& server = server_for(command, group);
  if (!server.process) return std::nullopt;
  const ForkRequest request{.build = build_id(),
                            .supervisor = ::getpid(),
                            .directory = command.directory.string(),
                            .arguments = command.arguments,
                            .environment = command.environment,
                            .inherited = command.inherited};
  const Descriptor log = open_log(command);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const Descriptor listen(ends[0]);
  Descriptor report(ends[1]);
  const bool sent = send_request(server.socket.number(), request, log.number(), report.number());
  report.close();
  const std::optional<pid_t> rank = sent ? read_rank_id(listen, server.process->pid(), stopped_limit_) : std::nullopt;
  if (rank) {
    server.has_served = true;
    return Process(*rank);
  }
  if (server.has_served) {
    servers_.pop_front();  // the next rank gets a new one
  } else {
    server.process.reset();
  }
  return std::nullopt;
}

}  // namespace lockstep::launch
