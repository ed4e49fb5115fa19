#include "harness/launch/other_launchers.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/launch/slurm_job.h"

namespace lockstep::launch {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

using Words = std::vector<std::string>;

Words with_command(Words words, const Launch& launch) {
  words.insert(words.begin(), launch.program.string());
  words.insert(words.end(), launch.options.begin(), launch.options.end());
  words.insert(words.end(), launch.command.begin(), launch.command.end());
  return words;
}

std::string text(std::int64_t number) { return std::to_string(number); }

/// Folder of a run that torchrun keeps its logs and its ranks' errors in.
std::string torchrun_folder(const std::filesystem::path& run) { return (run / "torchelastic").string(); }

std::map<std::string, std::string> master_of(const Launch& launch) {
  return {{"MASTER_ADDR", kLoopback}, {"MASTER_PORT", text(launch.port)}};
}

/// Without nodes, torchrun finds a port of its own.
std::vector<StartCommand> by_torchrun(const Launch& launch) {
  const Words again = {"--max-restarts", text(launch.restarts), "--no-python"};
  if (launch.nodes == 1) {
    Words words = {"--standalone", "--nproc-per-node", text(launch.world_size)};
    words.insert(words.end(), again.begin(), again.end());
    return {{with_command(std::move(words), launch)}};
  }
  std::vector<StartCommand> agents;
  for (std::int64_t node = 0; node < launch.nodes; ++node) {
    Words words = {"--nnodes", text(launch.nodes), "--nproc-per-node", text(launch.world_size / launch.nodes)};
    const Words fixed = {"--node-rank", text(node), "--master-addr", kLoopback, "--master-port", text(launch.port)};
    const Words met = {
        "--rdzv-backend", "c10d", "--rdzv-id", "lockstep", "--rdzv-endpoint", kLoopback + (":" + text(launch.port))};
    const Words& how = launch.rendezvous == "c10d" ? met : fixed;
    words.insert(words.end(), how.begin(), how.end());
    words.insert(words.end(), again.begin(), again.end());
    agents.push_back({with_command(std::move(words), launch)});
  }
  return agents;
}

/// Its Python is the one beside torchrun.
std::vector<StartCommand> by_distributed_launch(const Launch& launch) {
  Launch with_python = launch;
  with_python.program = launch.program.parent_path() / "python";
  return {
      {with_command({"-W", "ignore", "-m", "torch.distributed.launch", "--use_env", "--no_python", "--nproc_per_node",
                     text(launch.world_size), "--master_addr", kLoopback, "--master_port", text(launch.port)},
                    with_python)}};
}

/// It is torchrun, and reads none of torchrun's variables.
std::vector<StartCommand> by_accelerate(const Launch& launch) {
  return {{with_command({"launch", "--multi_gpu", "--num_processes", text(launch.world_size), "--num_machines", "1",
                         "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0", "--log_dir",
                         torchrun_folder(launch.directory), "--no_python"},
                        launch)}};
}

/// Not bound to cores: LibTorch would count those it may use. Hosts are those of mpirun's own configuration.
std::vector<StartCommand> by_mpirun(const Launch& launch) {
  Words words;
  if (::geteuid() == 0) words.push_back("--allow-run-as-root");
  for (const char* word : {"--oversubscribe", "--bind-to", "none", "-n"}) words.emplace_back(word);
  words.push_back(text(launch.world_size));
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT", "LOCKSTEP_RUN_ID"}) {
    words.emplace_back("-x");
    words.emplace_back(name);
  }
  return {{with_command(std::move(words), launch), master_of(launch)}};
}

/// A rank that learns by arguments where the others are, as those of init_process_group.
StartCommand by_arguments(const Launch& launch, std::int64_t rank) {
  StartCommand start{launch.command};
  const std::string where = launch.rendezvous == "file" ? "file://" + (launch.directory / "rendezvous").string()
                                                        : "tcp://" + std::string(kLoopback) + ":" + text(launch.port);
  for (const std::string& word :
       {"rank=" + text(rank), "world_size=" + text(launch.world_size), "init_method=" + where})
    start.words.push_back(word);
  return start;
}

StartCommand by_variables(const Launch& launch, std::int64_t rank) {
  StartCommand start{launch.command, master_of(launch)};
  start.environment["RANK"] = text(rank);
  start.environment["WORLD_SIZE"] = text(launch.world_size);
  return start;
}

/// An agent on each node. Those of one machine find each other at MASTER_ADDR, too.
std::vector<StartCommand> by_srun_torchrun(const Launch& launch) {
  const std::string address = "${MASTER_ADDR:-$(scontrol show hostnames \"$SLURM_STEP_NODELIST\" | head -n 1)}";
  const std::string agent =
      "exec torchrun --nnodes " + text(launch.nodes) + " --nproc-per-node " + text(launch.world_size / launch.nodes) +
      " --rdzv-backend c10d --rdzv-id lockstep --rdzv-endpoint \"" + address + ":$MASTER_PORT\" --no-python \"$@\"";
  Words words = {launch.program,
                 "--ntasks",
                 text(launch.nodes),
                 "--nodes",
                 text(launch.nodes),
                 "--ntasks-per-node=1",
                 "--cpus-per-task",
                 text(launch.world_size / launch.nodes),
                 "--kill-on-bad-exit=1",
                 "--export=ALL",
                 "--quiet"};
  words.insert(words.end(), launch.options.begin(), launch.options.end());
  for (const std::string& word : {std::string("bash"), std::string("-c"), agent, std::string("torchrun")})
    words.push_back(word);
  words.insert(words.end(), launch.command.begin(), launch.command.end());
  return {{std::move(words), {{"MASTER_PORT", text(launch.port)}}}};
}

/// A rank finds the host of rank 0 in the list of nodes. Without kill-on-bad-exit, the others would run on.
std::vector<StartCommand> by_srun(const Launch& launch) {
  return {{with_command({"--ntasks", text(launch.world_size), "--nodes", text(launch.nodes), "--ntasks-per-node",
                         text(launch.world_size / launch.nodes), "--kill-on-bad-exit=1", "--export=ALL", "--quiet"},
                        launch),
           {{"MASTER_PORT", text(launch.port)}}}};
}

/// One process for each rank, with the variables that a person exports.
std::vector<StartCommand> by_hand(const Launch& launch) {
  std::vector<StartCommand> ranks;
  for (std::int64_t rank = 0; rank < launch.world_size; ++rank)
    ranks.push_back(launch.rendezvous == "static" ? by_variables(launch, rank) : by_arguments(launch, rank));
  return ranks;
}

}  // namespace

const std::vector<OtherLauncher>& other_launchers() {
  static const std::vector<OtherLauncher> kAll = {
      {"torchrun", "torchrun", "PyPI: torch", true, false, 1, by_torchrun, "torch", {"c10d"}, false, true},
      {"torch.distributed.launch", "torchrun", "PyPI: torch", false, false, 1, by_distributed_launch, "torch"},
      {"accelerate", "accelerate", "PyPI: accelerate", false, false, 2, by_accelerate, "accelerate"},
      {"mpirun", "mpirun", "Debian: openmpi-bin", false, false, 1, by_mpirun, "--version"},
      {"srun-torchrun", "srun", "Debian: slurm-client, and a cluster", true, true, 1, by_srun_torchrun, "--version"},
      {"slurm", "sbatch", "Debian: slurm-client, and a cluster", true, true, 1, submit_to_slurm, "--version", {}, true},
      {"srun", "srun", "Debian: slurm-client, and a cluster", true, true, 1, by_srun, "--version"},
      {"manual", "", "", false, false, 1, by_hand, "", {"tcp", "file"}},
  };
  return kAll;
}

const OtherLauncher* find_other_launcher(std::string_view name) {
  const auto& all = other_launchers();
  const auto found = std::find_if(all.begin(), all.end(), [&](const OtherLauncher& one) { return name == one.name; });
  return found == all.end() ? nullptr : &*found;
}

std::filesystem::path program_of(const OtherLauncher& launcher) {
  if (*launcher.program == '\0') return "";
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path program = std::filesystem::path(folder) / launcher.program;
    if (!folder.empty() && ::access(program.c_str(), X_OK) == 0) return std::filesystem::absolute(program);
  }
  throw Unsupported({.what = std::string("the launcher ") + launcher.name + " is not installed",
                     .where = "PATH",
                     .expected = std::string("a program ") + launcher.program + " (" + launcher.package + ")",
                     .next = "ci/setup --launchers installs all launchers that the tests use; docs/launchers.md"});
}

void keep_torchrun_in(const std::filesystem::path& run, std::map<std::string, std::string>& environment) {
  constexpr const char* kVariable = "PET_LOG_DIR";  // of torchrun's option --log-dir
  if (std::getenv(kVariable) == nullptr) environment.try_emplace(kVariable, torchrun_folder(run));
}

void hand_over(Job& job, const OtherLauncher& launcher, Launch launch) {
  const auto refuse = [&](const std::string& expected, const std::string& actual) {
    throw InputError({.what = std::string("the launcher ") + launcher.name + " cannot start run '" + job.run + "'",
                      .where = "launch",
                      .expected = expected,
                      .actual = actual});
  };
  if (job.world_size < launcher.least_ranks)
    refuse("at least " + text(launcher.least_ranks) + " ranks", text(job.world_size));
  if (launch.nodes > 1 && !launcher.has_nodes) refuse("nodes = 1", "nodes = " + text(launch.nodes));
  if (job.world_size % launch.nodes != 0)
    refuse("a world_size that divides by nodes", text(job.world_size) + " ranks, " + text(launch.nodes) + " nodes");
  if (launch.restarts > 0 && !launcher.starts_again) refuse("restarts = 0", "restarts = " + text(launch.restarts));
  const auto& meet = launcher.rendezvous;
  if (launch.rendezvous != "static" && std::find(meet.begin(), meet.end(), launch.rendezvous) == meet.end())
    refuse("rendezvous = static" + (meet.empty() ? "" : ", " + join({meet.begin(), meet.end()}, ", ")),
           launch.rendezvous);
  launch.program = program_of(launcher);
  launch.directory = job.directory;
  launch.command = job.command;
  launch.world_size = job.world_size;
  job.starter = Starter::kOther;
  job.starts = launcher.starts(launch);
  keep_torchrun_in(job.directory, job.environment);
  job.may_queue = launcher.may_queue;
  job.restarts = launch.restarts;
  job.outlives_us = launcher.outlives_us;
  if (job.outlives_us) job.rank_memory = 0;  // of another machine
  job.fork_group.reset();
}

}  // namespace lockstep::launch
