#include "harness/launch/local.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/launch/interfaces.h"
#include "harness/launch/variables.h"

namespace lockstep::launch {
namespace {

using Clock = std::chrono::steady_clock;

/// How soon everything is noticed that no descriptor announces: progress, silence, a delayed rank that is due.
constexpr int kTick_ms = 20;

void put_over(Environment& environment, const std::map<std::string, std::string>& variables) {
  for (const auto& [name, value] : variables) environment[name] = value;
}

/// Ranks that another program starts may be on another machine; each looks at its own.
void require_interfaces_for(const Job& job) {
  if (job.starter != Starter::kLauncher) return;
  const std::set<std::string> interfaces = interfaces_with_address();
  Environment environment = inherited_environment();
  put_over(environment, job.environment);
  require_interfaces(environment, job.interface_variables, interfaces);
  for (const auto& [rank, variables] : job.rank_environment) {
    Environment own = environment;
    put_over(own, variables);
    require_interfaces(own, job.interface_variables, interfaces);
  }
}

/// Leaves what a second start needs.
void empty_folder_of(const Job& job) {
  for (const std::filesystem::path& entry : entries_of(job.directory)) {
    const bool is_input = std::find(job.inputs.begin(), job.inputs.end(), entry) != job.inputs.end();
    if (!is_input) std::filesystem::remove_all(entry);
  }
}

}  // namespace

void LocalLauncher::require(const Job& job) const {
  LOCKSTEP_CHECK(job.world_size >= 1);
  LOCKSTEP_CHECK(job.starter != Starter::kOther || !job.starts.empty());
  const std::filesystem::path program = job.command.empty() ? "" : job.command.front();
  std::error_code missing;
  if (std::filesystem::is_regular_file(program, missing) && ::access(program.c_str(), X_OK) == 0)
    return require_interfaces_for(job);
  throw InputError({.what = "the command of run '" + job.run + "' cannot be executed",
                    .where = job.command.empty() ? "(no command)" : program.string(),
                    .expected = "the path of an executable file",
                    .next = "build or install the program, or correct its path"});
}

bool LocalLauncher::has_room_for(const Job& job) const {
  std::int64_t in_use = 0;
  for (const Active& active : runs_) {
    if (!active.job.outlives_us) in_use += active.job.world_size;
    if (active.job.alone && job.alone) return false;
  }
  return job.outlives_us || runs_.empty() || in_use + job.world_size <= max_processes_;
}

void LocalLauncher::start(std::size_t number, const Job& job) {
  const auto now = Clock::now();
  runs_.push_back({.number = number, .job = job, .run = LocalRun(job, servers_, orphans_, lifeline_, now)});
  runs_.back().run.look(now);
}

std::vector<Ended> LocalLauncher::wait() {
  std::vector<pollfd> descriptors;
  for (const Active& active : runs_) active.run.watch(descriptors);
  ::poll(descriptors.data(), descriptors.size(), kTick_ms);
  for (Active& active : runs_) active.run.look(Clock::now());
  std::vector<Ended> ended;
  std::vector<std::pair<std::size_t, const Job*>> again;
  runs_.remove_if([&](const Active& active) {
    if (!active.run.over()) return false;
    if (active.run.failed_unseen()) {
      again.emplace_back(active.number, &active.job);
    } else {
      ended.push_back({.job = active.number, .outcome = active.run.outcome()});
    }
    return true;
  });
  for (const auto& [number, job] : again) {
    empty_folder_of(*job);
    start(number, *job);
  }
  return ended;
}

std::vector<Standing> LocalLauncher::standing() const {
  std::vector<Standing> all;
  for (const Active& active : runs_) all.push_back({.job = active.number, .progress = active.run.progress()});
  return all;
}

void LocalLauncher::interrupt(int signal) {
  for (Active& active : runs_) active.run.interrupt(signal, Clock::now());
}

}  // namespace lockstep::launch
