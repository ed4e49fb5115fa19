#include "harness/app/surroundings.h"

#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include "harness/app/recording_request.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/launch/interfaces.h"
#include "harness/launch/other_launchers.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

/// A worker with a small model, as measured at 150 and 300 ranks: LibTorch's own data, and the sockets to all others.
constexpr std::uintmax_t kWorkerMemory = 64 << 20;

/// Folder of a run with a copy of the run that it takes a checkpoint from: scripts write over what they load.
constexpr const char* kTaken = "from";

/// A Python interpreter that has imported torch.
constexpr std::uintmax_t kPythonMemory = 200 << 20;

/// Asks a program's recorder for one thing more.
void add_control(std::map<std::string, std::string>& variables, const char* name, const Json& value) {
  std::string& told = variables["LOCKSTEP_CONTROL"];
  Json control = told.empty() ? Json::object() : parse_json(told, "LOCKSTEP_CONTROL");
  control[name] = value;
  told = control.dump();
}

/// Completes a job; one overload for each kind of program.
struct TakeProgram {
  launch::Job& job;
  const plan::Run& run;
  const Surroundings& around;

  void operator()(const plan::WorkerProgram& program) const {
    const fs::path spec = job.directory / "run.json";
    if (!is_there(spec)) write_file(spec, program.spec.dump(1) + "\n");  // else ranks that outlived us may read it
    job.inputs = {spec};
    job.command = {around.worker.string(), "--spec", spec.string(), "--out", job.directory.string()};
    if (!run.launch.executed) job.fork_group = run.repeat;  // repeats differ in all that must not matter
    job.rank_memory = kWorkerMemory;
    job.interface_variables = launch::interface_variables_of(program.spec.at("train").at("device"));
  }

  void operator()(const plan::CommandProgram& program) const {
    const std::string port = std::to_string(around.port);
    scenario::Placeholders values = {{"world_size", std::to_string(run.world_size)},
                                     {"folder", job.directory.string()},
                                     {"variant", run.variant},
                                     {"repeat", std::to_string(run.repeat)},
                                     {"port", port}};
    if (!program.source.empty()) {
      const fs::path runs_root = job.directory / "../../..", copy = job.directory / kTaken / program.spec.source;
      values[scenario::folder_of(program.spec.source)] = copy.string();
      job.copies[(runs_root / program.source).lexically_normal()] = copy;
    }
    for (const std::string& word : program.spec.command) job.command.push_back(scenario::filled_in(word, values));
    job.command[0] = find_program(job.command[0], program.directory).string();
    job.starter = launch::Starter::kCommand;
    job.alone = program.spec.alone;
    job.work_directory = program.directory;
    job.rank_memory = kPythonMemory;
    // torchrun takes its options from PET_ variables, too: two of them on one machine need two ports.
    std::map<std::string, std::string> variables = {
        {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", port}, {"PET_MASTER_PORT", port}};
    for (const auto& [name, value] : program.spec.environment) variables[name] = scenario::filled_in(value, values);
    for (const auto& [name, value] : job.environment) variables[name] = value;
    launch::keep_torchrun_in(job.directory, variables);
    if (!job.step_delay_ms.empty()) add_control(variables, "step_delay_ms", job.step_delay_ms);
    // torch's own fill would write over that of the allocator.
    if (const auto fill = job.environment.find("MALLOC_PERTURB_"); fill != job.environment.end())
      add_control(variables, "fill", std::strtol(fill->second.c_str(), nullptr, 10));  // as glibc reads it
    const char* const inherited = std::getenv("PYTHONPATH");
    const std::string python_path = variables.contains("PYTHONPATH") ? variables["PYTHONPATH"]
                                    : inherited == nullptr           ? ""
                                                                     : inherited;
    const RecordingRequest request{.folder = job.directory,
                                   .every = program.spec.record.every,
                                   .channels = program.spec.record.channels,
                                   .header = program.header,
                                   .stop_after = program.spec.stop_after};
    for (const auto& [name, value] : recording_variables(request, python_path)) variables[name] = value;
    // The scenario alone says what is recorded, and not the caller's shell.
    for (const auto& [name, value] : usual_recorder_variables()) variables.try_emplace(name, value);
    job.environment = std::move(variables);
  }
};

}  // namespace

launch::Job job_of(const plan::Run& run, const fs::path& directory, const Surroundings& around) {
  launch::Job job{.run = run.name,
                  .directory = directory,
                  .command = {},
                  .world_size = run.world_size,
                  .arrival_delay_ms = run.launch.arrival_delay_ms,
                  .step_delay_ms = run.launch.step_delay_ms,
                  .environment = run.launch.environment,
                  .rank_environment = run.launch.rank_environment,
                  .reverse_environment = run.launch.reverse_environment,
                  .work_directory = run.launch.directory,
                  .deadline_s = run.launch.deadline_s,
                  .stall_s = run.launch.stall_s,
                  .after = run.after};
  std::visit(TakeProgram{job, run, around}, run.program);
  if (const launch::OtherLauncher* const other = launch::find_other_launcher(run.launch.other_launcher))
    launch::hand_over(job, *other,
                      {.nodes = run.launch.nodes,
                       .rendezvous = run.launch.rendezvous,
                       .restarts = run.launch.restarts,
                       .port = around.port,
                       .options = run.launch.options});
  return job;
}

}  // namespace lockstep::app
