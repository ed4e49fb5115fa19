#include <cstdio>
#include <cstdlib>
#include <set>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/app/options.h"
#include "harness/app/pipeline.h"
#include "harness/app/recording_request.h"
#include "harness/app/runs_folder.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/diagnosis/causes.h"
#include "harness/judge/launch_failure.h"
#include "harness/judge/recorded.h"
#include "harness/judge/verdict.h"
#include "harness/launch/foreground.h"
#include "harness/launch/variables.h"
#include "harness/trace/modules.h"
#include "harness/trace/reader.h"

namespace lockstep::app {
namespace {

struct RecordOptions {
  std::filesystem::path out;          ///< folder for the traces
  std::vector<std::string> command;   ///< program and arguments
  std::int64_t every = 1;             ///< updates
  std::vector<std::string> channels;  ///< empty: all
  bool strict = false;                ///< a recorder that fails ends the training
  std::int64_t stop_after = 0;        ///< updates; 0: the training ends by itself
};

namespace fs = std::filesystem;

void say(const std::string& line) { print_line(stderr, "lockstep: " + line); }

/// Sentences of all ranks about what their recorders could not see, each once.
std::set<std::string> unseen_by(const trace::RunTrace& run) {
  std::set<std::string> all;
  for (const trace::Trace& rank : run.ranks) {
    const Json unseen = rank.header.is_object() ? rank.header.value("unseen", Json::array()) : Json::array();
    for (const Json& sentence : unseen) {
      if (sentence.is_string()) all.insert(sentence.get<std::string>());
    }
  }
  return all;
}

/// Why the command's ranks never began, where they told it themselves.
void tell_launch_failure(const fs::path& folder) {
  const auto found = judge::find_launch_failure(judge::failures_told_in(folder));
  if (!found) return;
  const diagnosis::Cause* const cause = diagnosis::find_cause(found->suspect.cause);
  if (cause == nullptr) return say(found->suspect.cause);
  say(found->suspect.cause + ": " + std::string(cause->sentence));
  for (const std::string& evidence : found->suspect.evidence) say("  " + evidence);
  say("  " + std::string(cause->remedy));
}

/// What was recorded, for people; whether it is whole.
bool tell(const fs::path& folder, bool failed) {
  if (!is_there(folder / trace::file_name_of_rank(0))) {
    say("nothing was recorded: no process of this command made an optimizer step with torch 2.5 or later");
    if (failed) tell_launch_failure(folder);
    return false;
  }
  const trace::RunTrace run = trace::read_run(folder, folder.string());
  const std::string torn = run.torn();
  std::size_t steps = 0, records = 0;
  for (const trace::Trace& rank : run.ranks) {
    steps = std::max(steps, rank.steps.size());
    for (const trace::Step& step : rank.steps) records += step.records.size();
  }
  say(std::to_string(run.ranks.size()) + (run.ranks.size() == 1 ? " rank, " : " ranks, ") + std::to_string(steps) +
      " steps, " + std::to_string(records) + " records in " + folder.string());
  if (const std::size_t modules = trace::own_modules(run).size(); modules > 0)
    say(std::to_string(modules) + (modules == 1 ? " module" : " modules") + " of the program's own");
  for (const std::string& sentence : unseen_by(run)) say("not recorded: " + sentence);
  if (!torn.empty()) say("the trace is torn: " + torn);
  return torn.empty();
}

/// The command that judges each start, and how it goes on from the checkpoints of those before.
std::string check_command(const std::vector<fs::path>& starts) {
  std::string command = "lockstep check";
  for (const fs::path& start : starts)
    command += " " + shell_quoted(start.lexically_proximate(fs::current_path()).string());
  return command;
}

int record(const RecordOptions& options) {
  for (const std::string& name : options.channels) channel_option(name);
  const fs::path program = find_program(options.command.at(0), fs::current_path());
  const fs::path folder = fs::absolute(options.out);
  launch::Environment environment = launch::inherited_environment();
  const auto python_path = environment.find("PYTHONPATH");
  const RecordingRequest request{.folder = folder,
                                 .every = options.every,
                                 .channels = options.channels,
                                 .strict = options.strict,
                                 .stop_after = options.stop_after};
  for (const auto& [name, value] :
       recording_variables(request, python_path == environment.end() ? "" : python_path->second))
    environment[name] = value;
  require_new_folder(options.out, "traces");
  const int code = launch::run_in_foreground(program, options.command, environment);
  const std::string ending = Json({{"format", "lockstep.command/1"},
                                   {"command", options.command},
                                   {"directory", fs::current_path().string()},
                                   {"exit_code", code}})
                                 .dump(1, ' ', false, Json::error_handler_t::replace) +
                             "\n";
  const std::vector<fs::path> starts = trace::starts_in(folder);
  bool whole = false;  // of the last start
  for (const fs::path& start : starts) {
    write_file(start / judge::kCommandFile, ending);
    whole = tell(start, code != 0);
  }
  if (starts.size() > 1)
    say("the ranks were started " + std::to_string(starts.size()) +
        " times; each start is a recording of its own: " + check_command(starts));
  if (code != 0) say("the command exited with code " + std::to_string(code));
  if (code != 0) return code;
  return exit_code(whole ? judge::Status::kAgree : judge::Status::kInconclusive);
}

}  // namespace

void add_record(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("record", "Record a training of your own: lockstep record --out FOLDER -- COMMAND");
  const auto options = std::make_shared<RecordOptions>();
  command->add_option("--out", options->out, "Folder for the traces; must be empty")
      ->type_name("FOLDER")
      ->required()
      ->check(not_empty);
  command->add_option("--every", options->every, "Record every so many updates")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  add_stop_after(*command, options->stop_after);
  command->add_option("--channel", options->channels, "Record these channels only")->allow_extra_args(false);
  command->add_flag("--strict", options->strict, "A recorder that fails ends the training");
  command->add_option("command", options->command, "The command, after --")->required()->check(not_empty);
  command->positionals_at_end();
  run_when_chosen(*command, action, options, record);
}

}  // namespace lockstep::app
