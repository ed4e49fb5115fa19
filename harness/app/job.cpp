#include "harness/app/job.h"

#include <string>
#include <variant>
#include <vector>

#include "harness/base/files.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

/// A worker with a small model, as measured at 150 and 300 ranks: LibTorch's own data, and the sockets to all others.
constexpr std::uintmax_t kWorkerMemory = 64 << 20;

/// One overload for each kind of program.
struct CommandOf {
  const fs::path& worker;
  const fs::path& directory;

  std::vector<std::string> operator()(const plan::WorkerProgram& program) const {
    const fs::path spec = directory / "run.json";
    write_file(spec, program.spec.dump(1) + "\n");
    return {worker.string(), "--spec", spec.string(), "--out", directory.string()};
  }
};

}  // namespace

launch::Job job_of(const plan::Run& run, const fs::path& worker, const fs::path& directory) {
  return {.run = run.name,
          .directory = directory,
          .command = std::visit(CommandOf{worker, directory}, run.program),
          .world_size = run.world_size,
          .arrival_delay_ms = run.launch.arrival_delay_ms,
          .step_delay_ms = run.launch.step_delay_ms,
          .environment = run.launch.environment,
          .rank_environment = run.launch.rank_environment,
          .reverse_environment = run.launch.reverse_environment,
          .work_directory = run.launch.directory,
          .deadline_s = run.launch.deadline_s,
          .stall_s = run.launch.stall_s,
          .rank_memory = kWorkerMemory,
          .after = run.after};
}

}  // namespace lockstep::app
