#include "harness/app/fleet.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "harness/app/shell.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/launch/interfaces.h"
#include "harness/launch/other_launchers.h"
#include "harness/launch/processes.h"
#include "harness/launch/variables.h"

namespace lockstep::app {
namespace {

/// Descriptors of a rank among eight: connections to all others, logs, traces.
constexpr rlim_t kEnoughDescriptors = 256;
constexpr rlim_t kEnoughProcesses = 256;

/// NCCL, and workers of a DataLoader, pass their data through /dev/shm. Docker's default is 64 MiB.
constexpr std::uintmax_t kEnoughSharedMemory = std::uintmax_t{256} << 20;

/// The value of the first line that begins so; empty if there is none.
std::string line_in(const char* file, std::string_view key) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    const std::size_t begin = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (end > begin) lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

/// The output of a program in PATH; empty if there is none of that name.
std::string said_by_program(const std::string& name, const std::string& arguments) {
  return said_by("command -v " + name + " >/dev/null 2>&1 && timeout 20 " + name + " " + arguments + " 2>&1").text;
}

/// The first word that begins with a digit, as a version does, perhaps behind a "v".
std::string version_in(const std::string& text) {
  std::string word;
  for (const char c : text + " ") {
    const bool inside = std::isspace(static_cast<unsigned char>(c)) == 0 && c != ',' && c != '(' && c != ')';
    if (inside) {
      word += c;
      continue;
    }
    if (word.starts_with('v')) word.erase(0, 1);
    if (!word.empty() && std::isdigit(static_cast<unsigned char>(word[0])) != 0 && word.find('.') != std::string::npos)
      return word;
    word.clear();
  }
  return "of unknown version";
}

std::string limit_text(rlim_t limit) { return limit == RLIM_INFINITY ? "no limit" : std::to_string(limit); }

rlim_t limit_of(__rlimit_resource resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  return limit.rlim_cur;
}

/// Ports on which this machine listens on all interfaces, by the number of their socket.
std::map<std::string, int> open_ports() {
  constexpr const char* kListens = "0A";
  constexpr int kHexadecimal = 16;
  std::map<std::string, int> ports;
  for (const char* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);  // its head
    while (std::getline(stream, line)) {
      std::istringstream words(line);
      std::string number, local, remote, state, queues, timer, retransmitted, user, timeout, socket;
      words >> number >> local >> remote >> state >> queues >> timer >> retransmitted >> user >> timeout >> socket;
      const std::size_t colon = local.find(':');
      if (state != kListens || colon == std::string::npos || local.find_first_not_of('0') != colon) continue;
      ports["socket:[" + socket + "]"] =
          static_cast<int>(std::strtol(local.c_str() + colon + 1, nullptr, kHexadecimal));
    }
  }
  return ports;
}

/// Whether a process belongs to a run: its environment names one.
bool is_of_run(const std::string& process) {
  std::ifstream stream(process + "/environ", std::ios::binary);
  const std::string name = launch::environment_entry(kRunIdVariable, "");
  for (std::string variable; std::getline(stream, variable, '\0');) {
    if (variable.starts_with(name)) return true;
  }
  return false;
}

/// "port 29500 (process 4711, torchrun)" of processes of runs, as far as this user may see them.
std::vector<std::string> open_ports_of_runs() {
  namespace fs = std::filesystem;
  const std::map<std::string, int> open = open_ports();
  std::set<std::string> found;
  for (const pid_t pid : launch::numbered_entries("/proc")) {
    const std::string process = "/proc/" + std::to_string(pid);
    if (open.empty() || !is_of_run(process)) continue;
    for (const int descriptor : launch::numbered_entries(process + "/fd")) {
      std::error_code gone;
      const fs::path file = fs::read_symlink(process + "/fd/" + std::to_string(descriptor), gone);
      const auto port = open.find(file.string());
      if (port == open.end()) continue;
      std::ifstream stream(process + "/comm");
      std::string program;
      std::getline(stream, program);
      found.insert("port " + std::to_string(port->second) + " (process " + std::to_string(pid) + ", " + program + ")");
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace

std::string examine_processors() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  const int mine = ::sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 0;
  const long all = ::sysconf(_SC_NPROCESSORS_ONLN);
  std::vector<std::string> sets;
  const auto note = [&](bool has, const char* name) {
    if (has) sets.emplace_back(name);
  };
  note(__builtin_cpu_supports("avx2") != 0, "AVX2");
  note(__builtin_cpu_supports("fma") != 0, "FMA");
  note(__builtin_cpu_supports("avx512f") != 0, "AVX512F");
  note(__builtin_cpu_supports("avx512bf16") != 0, "AVX512_BF16");
  const std::string model = line_in("/proc/cpuinfo", "model name");
  return std::to_string(mine) + " of " + std::to_string(all) + " processors, " +
         (model.empty() ? "of unknown model" : model) + ", " + (sets.empty() ? "no AVX2" : join(sets, " ")) +
         "; machines with other instructions choose other kernels: compare them with \"cpu\": \"portable\"";
}

std::string examine_gpus() {
  if (said_by_program("nvidia-smi", "--version").empty()) return "no nvidia-smi in PATH";
  const Said gpus = said_by(
      "timeout 20 nvidia-smi --query-gpu=index,name,driver_version,memory.used,memory.total --format=csv,noheader");
  if (gpus.status != 0)
    throw ResourceError({.what = "nvidia-smi fails",
                         .where = "nvidia-smi",
                         .expected = "a list of GPUs",
                         .actual = gpus.text,
                         .next = "examine the driver: a training that wants a GPU fails here"});
  const std::vector<std::string> all = lines_of(gpus.text);
  const std::vector<std::string> busy = lines_of(
      said_by("timeout 20 nvidia-smi --query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv,noheader")
          .text);
  return (all.empty() ? "none" : join(all, "; ")) +
         (busy.empty()
              ? "; no process on them"
              : "; " + std::to_string(busy.size()) + " processes take their memory and time: " + some_of(busy, 3));
}

std::string examine_interfaces() {
  const std::set<std::string> interfaces = launch::interfaces_with_address();
  launch::require_interfaces(launch::whole_environment(), {launch::kGlooInterfaces, launch::kNcclInterfaces},
                             interfaces);
  return join({interfaces.begin(), interfaces.end()}, ", ") +
         " with an address; without GLOO_SOCKET_IFNAME, Gloo takes the one of the host's name";
}

std::string examine_sockets() {
  constexpr std::size_t kMostShown = 10;
  const std::vector<std::string> open = open_ports_of_runs();
  return (open.empty() ? "no run listens on all interfaces now"
                       : "current runs listen on all interfaces: " + some_of(open, kMostShown)) +
         "; lockstep's own store listens on 127.0.0.1; during a run, the stores of torchrun and accelerate listen on "
         "all interfaces without a password: keep such ports behind a firewall";
}

std::string examine_launchers_in_path() {
  std::set<std::string> known = {""};  // programs; two launchers may be of one
  std::vector<std::string> found;
  for (const launch::OtherLauncher& one : launch::other_launchers()) {
    const std::string program = one.program, asks = one.version;
    if (!known.insert(program).second || said_by("command -v " + program + " 2>/dev/null").text.empty()) continue;
    const std::string said =
        asks.starts_with('-')
            ? said_by_program(program, asks)
            : said_by("python3 -c 'import importlib.metadata as m; print(m.version(\"" + asks + "\"))' 2>/dev/null")
                  .text;
    found.push_back(program + " " + version_in(said));
  }
  return (found.empty() ? "none in PATH" : join(found, ", ")) +
         "; a launcher changes bits only through the environment that it sets (OMP_NUM_THREADS)";
}

std::string examine_limits() {
  const rlim_t files = limit_of(RLIMIT_NOFILE), processes = limit_of(RLIMIT_NPROC);
  struct statvfs shared {};
  const bool has_shared = ::statvfs("/dev/shm", &shared) == 0;
  const std::uintmax_t bytes = has_shared ? std::uintmax_t{shared.f_blocks} * shared.f_frsize : 0;
  const std::string text = "open files " + limit_text(files) + ", processes " + limit_text(processes) + ", core " +
                           limit_text(limit_of(RLIMIT_CORE)) + ", memory " + limit_text(limit_of(RLIMIT_AS)) +
                           ", /dev/shm " + std::to_string(bytes >> 20) + " MiB";
  const std::string small = bytes >= kEnoughSharedMemory ? ""
                                                         : "; little shared memory: with NCCL, or workers of a "
                                                           "DataLoader, ranks die of SIGBUS (docker run --shm-size)";
  const char* what = files < kEnoughDescriptors ? "few open files: ranks fail with 'Too many open files' (ulimit -n)"
                     : processes < kEnoughProcesses ? "few processes: ranks cannot be started (ulimit -u)"
                                                    : nullptr;
  if (what == nullptr) return text + "; enough for 8 ranks" + small;
  throw ResourceError({.what = what, .where = "limits of this process", .actual = text});
}

}  // namespace lockstep::app
