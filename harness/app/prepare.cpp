#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/judge/recorded.h"

namespace lockstep::app {
namespace {

/// One command starts all ranks, wherever they are: it cannot do for a single one what our launcher does.
void require_one_command(const plan::Run& run) {
  const std::string key = scenario::own_launch_key(run.launch);
  if (!key.empty())
    throw InputError({.what = "launch." + key + " cannot be handed to another scheduler",
                      .where = run.name,
                      .next = "run this scenario with `lockstep run`, or take the key out"});
}

/// All runs, each behind those whose checkpoints it takes.
std::vector<std::size_t> in_order(const plan::Plan& plan) {
  std::vector<std::size_t> order;
  std::vector<bool> taken(plan.runs.size());
  while (order.size() < plan.runs.size()) {
    for (std::size_t i = 0; i < plan.runs.size(); ++i) {
      const auto& after = plan.runs[i].after;
      if (taken[i] || !std::all_of(after.begin(), after.end(), [&](std::size_t earlier) { return taken[earlier]; }))
        continue;
      taken[i] = true;
      order.push_back(i);
    }
  }
  return order;
}

/// Runs a program and writes down how it ended, which its traces do not show.
constexpr const char* kWatch = R"("$@"; code=$?; echo "{\"exit_code\": $code}" >"$0"; exit $code)";

/// Shell's words that give a run copies of the folders which it takes from others, anew at each start.
std::string copying(const launch::Job& job) {
  std::string script;
  for (const auto& [from, to] : job.copies) {
    const std::string parent = shell_quoted(to.parent_path().string()), copy = shell_quoted(to.string());
    script += "rm -rf " + copy + " && mkdir -p " + parent + " && cp -RP " + shell_quoted(from.string()) + " " + copy +
              " || exit; ";
  }
  return script;
}

std::vector<std::string> command_of(const launch::Job& job) {
  if (job.starter != launch::Starter::kCommand) return job.command;
  std::vector<std::string> command = {"/bin/sh", "-c", copying(job) + kWatch,
                                      (job.directory / judge::kCommandFile).string()};
  command.insert(command.end(), job.command.begin(), job.command.end());
  return command;
}

Json description_of(const plan::Plan& plan, const plan::Run& run, const launch::Job& job) {
  Json after = Json::array();
  for (const std::size_t earlier : run.after) after.push_back(plan.runs[earlier].name);
  const bool starts_itself = job.starter == launch::Starter::kCommand;
  return {{"run", run.name},
          {"processes", starts_itself ? 1 : run.world_size},
          {"after", after},
          {"directory", starts_itself ? job.work_directory.string() : job.directory.string()},
          {"environment", job.environment},
          {"command", command_of(job)}};
}

/// "4<tab>env -C … NAME=VALUE … lockstep-worker …".
std::string line_of(const Json& run) {
  std::string line = run.at("processes").dump() + "\tenv -C " + shell_quoted(run.at("directory").get<std::string>());
  for (const auto& [name, value] : run.at("environment").items())
    line += " " + shell_quoted(name + "=" + value.get<std::string>());
  for (const Json& word : run.at("command")) line += " " + shell_quoted(word.get<std::string>());
  return line + "\n";
}

}  // namespace

int prepare(const RunOptions& options) {
  make_way("--json", options.json(), options.scenarios);
  const plan::Plan plan = plan::make_plan(load(options));
  for (const plan::Run& run : plan.runs) require_one_command(run);
  RunsFolder runs(options.out);
  Ports ports;
  Json all = Json::array();
  std::string lines;
  for (const std::size_t i : in_order(plan)) {
    plan::Run run = plan.runs[i];
    run.launch.other_launcher.clear();  // somebody else chooses it
    all.push_back(description_of(plan, run, job_in(run, runs.path(), options, ports)));
    lines += line_of(all.back());
  }
  const Json commands = {{"format", "lockstep.commands/1"}, {"runs", all}};
  replace_file(runs.path() / "commands.txt", lines);
  replace_file(runs.path() / "commands.json", commands.dump(1) + "\n");
  Campaign::begin(plan, runs.path());
  if (!options.json().empty()) write_json(options.json(), commands);
  if (options.json() == kStandardOutput) return 0;
  std::string scenarios;
  for (const scenario::Scenario& scenario : plan.scenarios) scenarios += " " + shell_quoted(scenario.file.string());
  print_line(stdout, std::to_string(all.size()) + " runs are prepared: " + (runs.path() / "commands.txt").string());
  print_line(stdout,
             "when they have ended: lockstep judge" + scenarios + " --traces " + shell_quoted(runs.path().string()));
  return 0;
}

}  // namespace lockstep::app
