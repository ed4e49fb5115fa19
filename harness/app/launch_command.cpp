#include <algorithm>
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/text.h"

namespace lockstep::app {
namespace {

struct EmitOptions {
  std::filesystem::path folder;  ///< as `run --prepare` makes it
  std::string manifest;          ///< "sbatch", "k8s"
  std::string name = "lockstep";
  std::int64_t nodes = 1;    ///< of sbatch
  std::string image, claim;  ///< of k8s
};

namespace fs = std::filesystem;

/// A prepared folder, as a scheduler needs it.
struct Prepared {
  fs::path folder;
  std::int64_t most_processes = 1;
  std::string worker;  ///< path of the worker; "": all runs are programs
};

Prepared read_prepared(const fs::path& folder) {
  const fs::path file = fs::absolute(folder) / "commands.json";
  if (!is_there(file))
    throw InputError({.what = "the folder holds no runs for another scheduler",
                      .where = folder.string(),
                      .expected = "commands.json, as `lockstep run SCENARIO --prepare FOLDER` writes it"});
  Prepared prepared{.folder = file.parent_path()};
  const auto damaged = [&](const std::string& actual) {
    return DamagedFile({.what = "the list of runs cannot be read",
                        .where = file.string(),
                        .expected = "runs, as `lockstep run SCENARIO --prepare FOLDER` writes them",
                        .actual = actual,
                        .next = "prepare the folder again"});
  };
  try {
    const Json commands = read_json(file);
    if (commands.at("runs").empty()) throw damaged("no run");
    for (const Json& run : commands.at("runs")) {
      prepared.most_processes = std::max(prepared.most_processes, run.at("processes").get<std::int64_t>());
      const auto first = run.at("command").at(0).get<std::string>();
      if (run.at("command").at(1) == "--spec") prepared.worker = first;
    }
  } catch (const Json::exception& error) {
    throw damaged(error.what());
  }
  return prepared;
}

/// Characters that a manifest would take for something else.
void refuse_in_folder(const Prepared& prepared, const std::string& characters) {
  if (prepared.folder.string().find_first_of(characters) == std::string::npos) return;
  throw InputError({.what = "a manifest cannot hold the name of this folder",
                    .where = prepared.folder.string(),
                    .expected = "none of these characters: " + characters,
                    .next = "prepare a folder of another name"});
}

/// An option of the other manifest would be lost.
void refuse_option(const EmitOptions& options, const char* option, bool is_given) {
  if (!is_given) return;
  throw InputError(
      {.what = std::string(option) + " is no option of this manifest", .where = "--emit " + options.manifest});
}

/// A loop over the lines of commands.txt around `body`, which knows $processes and $command.
std::string for_each_run(const Prepared& prepared, const std::string& body) {
  return "exec 3<" + shell_quoted((prepared.folder / "commands.txt").string()) +
         " || exit\n"
         "while IFS=$'\\t' read -r processes command <&3; do\n" +
         body + "done\n";
}

/// One step of srun for each run, on as many nodes as it has processes for.
std::string sbatch_of(const Prepared& prepared, const EmitOptions& options) {
  refuse_in_folder(prepared, "%\\");
  refuse_option(options, "--image", !options.image.empty());
  refuse_option(options, "--claim", !options.claim.empty());
  const std::int64_t nodes = std::min(options.nodes, prepared.most_processes);
  const std::string port = prepared.worker.empty()
                               ? ""
                               : "  MASTER_PORT=$(" + shell_quoted(prepared.worker) +
                                     " --free-port \"$SLURM_JOB_ID\") || exit\n" + "  export MASTER_PORT\n";
  return "#!/bin/bash\n#SBATCH --job-name=" + options.name + "\n#SBATCH --nodes=" + std::to_string(nodes) +
         "\n#SBATCH --ntasks=" + std::to_string(prepared.most_processes) +
         "\n#SBATCH --output=" + shell_quoted((prepared.folder / "sbatch-%j.log").string()) +
         "\n\n# A rank finds rank 0 on the first node of its step; MASTER_ADDR goes over that.\n" +
         for_each_run(prepared, port +
                                    "  export LOCKSTEP_RUN_ID=\"$SLURM_JOB_ID-$((++run))\"\n  srun "
                                    "--ntasks=\"$processes\" --nodes=$((processes < " +
                                    std::to_string(nodes) + " ? processes : " + std::to_string(nodes) +
                                    ")) --kill-on-bad-exit=1 bash -c \"$command\" </dev/null\n");
}

/// First of the ports that the runs of a Job get, one after the other: a pod has all of them to itself.
constexpr int kFirstPort = 29500;

/// What each pod runs: its rank of every run. It leaves with 0, or the others would be ended with it.
std::string script_of_pod(const Prepared& prepared) {
  return for_each_run(prepared,
                      "  export MASTER_PORT=$((MASTER_PORT + 1)) RANK=$JOB_COMPLETION_INDEX WORLD_SIZE=$processes\n"
                      "  export LOCKSTEP_RUN_ID=$MASTER_ADDR-$MASTER_PORT\n"
                      "  ((RANK < processes)) || continue\n"
                      "  bash -c \"$command\" </dev/null\n") +
         "exit 0\n";
}

/// A headless Service, by which pods find rank 0, and an Indexed Job with a pod for each rank.
/// *Source*: kubernetes.io/docs/tasks/job/job-with-pod-to-pod-communication.
Json kubernetes_of(const Prepared& prepared, const EmitOptions& options) {
  refuse_in_folder(prepared, ":$");
  refuse_option(options, "--nodes", options.nodes > 1);
  for (const auto& [option, value] : {std::pair{"--image", options.image}, {"--claim", options.claim}}) {
    if (value.empty())
      throw InputError({.what = std::string("--emit k8s needs ") + option,
                        .expected = "the container image that has the worker and bash, and the PersistentVolumeClaim "
                                    "that holds the folder"});
  }
  const Json label = {{"app", options.name}};
  const Json environment = {{{"name", "MASTER_ADDR"}, {"value", options.name + "-0." + options.name}},
                            {{"name", "MASTER_PORT"}, {"value", std::to_string(kFirstPort)}},
                            {{"name", "LOCAL_RANK"}, {"value", "0"}}};
  const Json container = {{"name", "rank"},
                          {"image", options.image},
                          {"command", {"/bin/bash", "-c", script_of_pod(prepared)}},
                          {"env", environment},
                          {"volumeMounts", {{{"name", "runs"}, {"mountPath", prepared.folder.string()}}}}};
  const Json pod = {{"subdomain", options.name},
                    {"restartPolicy", "Never"},
                    {"containers", {container}},
                    {"volumes", {{{"name", "runs"}, {"persistentVolumeClaim", {{"claimName", options.claim}}}}}}};
  const Json service = {{"apiVersion", "v1"},
                        {"kind", "Service"},
                        {"metadata", {{"name", options.name}}},
                        {"spec", {{"clusterIP", "None"}, {"publishNotReadyAddresses", true}, {"selector", label}}}};
  const Json job = {{"apiVersion", "batch/v1"},
                    {"kind", "Job"},
                    {"metadata", {{"name", options.name}}},
                    {"spec",
                     {{"completionMode", "Indexed"},
                      {"completions", prepared.most_processes},
                      {"parallelism", prepared.most_processes},
                      {"backoffLimit", 0},
                      {"template", {{"metadata", {{"labels", label}}}, {"spec", pod}}}}}};
  return {{"apiVersion", "v1"}, {"kind", "List"}, {"items", {service, job}}};
}

int emit(const EmitOptions& options) {
  const Prepared prepared = read_prepared(options.folder);
  if (options.manifest == "k8s") {
    print_json(stdout, kubernetes_of(prepared, options));
  } else {
    print_page(stdout, sbatch_of(prepared, options));
  }
  return 0;
}

/// For names in Kubernetes, which become names of hosts; "" is all well.
std::string dns_label(const std::string& text) {
  constexpr std::size_t kLongest = 50;  // of 63: the job appends the number of the pod
  const bool fits = !text.empty() && text.size() <= kLongest && text[0] >= 'a' && text[0] <= 'z' &&
                    text.back() != '-' &&
                    text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  return fits ? "" : "is no name of at most 50 small letters, digits and '-', with a letter first";
}

/// An image of containers, or the name of a claim.
std::string without_spaces(const std::string& text) {
  const bool fits = !text.empty() && text.find_first_of(" \t\n\"'") == std::string::npos;
  return fits ? "" : "is empty, or has spaces or quotation marks";
}

}  // namespace

void add_launch(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("launch", "Print what starts the runs of a prepared folder on a cluster");
  const auto options = std::make_shared<EmitOptions>();
  command->add_option("folder", options->folder, "Folder of `lockstep run SCENARIO --prepare FOLDER`")
      ->required()
      ->check(not_empty);
  command->add_option("--emit", options->manifest, "sbatch: a batch script of Slurm. k8s: a Job of Kubernetes")
      ->required()
      ->check(one_of({"sbatch", "k8s"}));
  command->add_option("--name", options->name, "Name of the job. Default: lockstep")->check(dns_label);
  command->add_option("--nodes", options->nodes, "Nodes of Slurm that the ranks are spread over. Default: 1")
      ->check(CLI::Range(1, 1024));
  command->add_option("--image", options->image, "Container image of k8s, with lockstep-worker where it is here")
      ->check(without_spaces);
  command->add_option("--claim", options->claim, "PersistentVolumeClaim of k8s that holds the folder")
      ->check(without_spaces);
  run_when_chosen(*command, action, options, emit);
}

}  // namespace lockstep::app
