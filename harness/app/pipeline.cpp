#include "harness/app/pipeline.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>
#include <set>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/app/display.h"
#include "harness/app/recording_request.h"
#include "harness/app/surroundings.h"
#include "harness/app/worker_program.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/decision/decision.h"
#include "harness/diagnosis/causes.h"
#include "harness/golden/root.h"
#include "harness/judge/illustrate.h"
#include "harness/launch/listener.h"
#include "harness/launch/local.h"
#include "harness/launch/other_launchers.h"
#include "harness/plan/validation.h"
#include "harness/scenario/loading.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

/// Folder of control runs among those of the scenarios, whose names begin otherwise.
constexpr const char* kExperiments = ".experiments";

/// A cause that no finding can name would never be met.
void require_known_causes(const scenario::Scenario& scenario, Problems& problems) {
  for (std::size_t i = 0; i < scenario.checks.size(); ++i) {
    const auto& expect = scenario.checks[i].expect;
    if (!expect || !expect->cause || *expect->cause == "unknown") continue;
    const diagnosis::Cause* const cause = diagnosis::find_cause(*expect->cause);
    if (cause != nullptr && cause->is_named) continue;
    problems.add({.what = (cause == nullptr ? "unknown cause '" : "lockstep does not recognise this cause yet: '") +
                          *expect->cause + "'",
                  .where = scenario.file.string() + ": checks." + std::to_string(i) + ".expect.cause",
                  .expected = "an id that `lockstep explain` lists, or 'unknown'",
                  .actual = "",
                  .next = cause == nullptr ? suggest(*expect->cause, diagnosis::cause_ids()) : ""});
  }
}

/// A device or a pipe is somebody's, and not for us to replace by a file.
bool is_written_through(const fs::path& target) {
  std::error_code ignored;
  const fs::file_status status = fs::status(target, ignored);
  return fs::exists(status) && !fs::is_regular_file(status);
}

/// A result by such a name would be taken for a file that people keep, or replace it.
void require_no_kept_file(const std::string& option, const fs::path& target) {
  const bool marks_project = target.filename() == golden::kProjectFile;
  static const std::set<std::string> kKept = {".golden", ".jsonc"};
  if (!marks_project && !kKept.contains(target.extension().string())) return;
  throw InputError({.what = marks_project
                                ? "this is the name of the file that marks a project"
                                : "goldens and scenarios have such a name, and a result replaces what is there",
                    .where = option + target.string(),
                    .next = "give the result another name"});
}

/// The same for the scenarios that are to run.
void require_no_scenario(const std::string& option, const fs::path& target, const std::vector<fs::path>& scenarios) {
  Problems ignored;
  std::error_code unknown;
  for (const fs::path& file : select(scenarios, ignored)) {
    if (!fs::equivalent(file, target, unknown)) continue;
    throw InputError({.what = "a result would replace the scenario",
                      .where = option + target.string(),
                      .next = "give the result another name"});
  }
}

fs::path parent_of(const fs::path& target) { return target.has_parent_path() ? target.parent_path() : "."; }

/// `place`: the folder, or the device, that is written to.
void require_writable(const std::string& option, const fs::path& target, const fs::path& place) {
  if (::access(place.c_str(), W_OK) == 0) return;
  throw InputError({.what = "the result cannot be written here",
                    .where = option + target.string(),
                    .expected = "a place in a folder that exists and may be written to"});
}

/// Removes a file, or a link to one: what is written there takes its place. Errors show when it is written.
void remove_earlier(const fs::path& target) {
  std::error_code ignored;
  if (fs::is_regular_file(fs::status(target, ignored))) fs::remove(target, ignored);
}

/// Neither creates nor empties a file: somebody may put one in the place of the device meanwhile.
void write_through(const fs::path& target, const std::string& text) {
  const int descriptor = ::open(target.c_str(), O_WRONLY | O_CLOEXEC);
  struct stat found = {};
  const bool is_file = descriptor >= 0 && ::fstat(descriptor, &found) == 0 && S_ISREG(found.st_mode);
  if (is_file) {
    ::close(descriptor);
    return replace_file(target, text);
  }
  std::FILE* const file = descriptor < 0 ? nullptr : ::fdopen(descriptor, "w");
  const bool written = file != nullptr && std::fputs(text.c_str(), file) >= 0;
  const bool closed = file != nullptr && std::fclose(file) == 0;
  if (!written || !closed)
    throw ResourceError({.what = std::string("the result cannot be written: ") + std::strerror(errno),
                         .where = target.string(),
                         .next = "run it again with another file"});
}

bool is_interrupted(const std::vector<judge::Evidence>& evidence) {
  return std::any_of(evidence.begin(), evidence.end(), [](const judge::Evidence& run) {
    return run.outcome.status == launch::RunOutcome::Status::kInterrupted;
  });
}

}  // namespace

std::vector<fs::path> select(const std::vector<fs::path>& paths, Problems& problems) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    if (!is_there(path)) {
      problems.add({.what = "a scenario is missing",
                    .where = path.string(),
                    .expected = "a scenario file, or a folder of them"});
      continue;
    }
    if (!is_folder(path)) {
      files.push_back(path);
      continue;
    }
    for (const fs::path& entry : entries_of(path)) {
      const bool is_project = entry.filename() == golden::kProjectFile;
      if (!is_project && (entry.extension() == ".json" || entry.extension() == ".jsonc")) files.push_back(entry);
    }
  }
  if (files.empty() && problems.all().empty())
    problems.add({.what = "nothing is selected: there is no scenario to run",
                  .where = "",
                  .expected = "at least one *.json or *.jsonc",
                  .actual = "",
                  .next = "name a scenario file, or a folder that holds some"});
  return files;
}

std::vector<scenario::Scenario> load(const RunOptions& options) {
  if (!options.golden_root.empty())
    is_there(options.golden_root);  // or says why it cannot be told, ahead of all trainings
  Problems problems;
  std::vector<scenario::Scenario> scenarios;
  for (const fs::path& file : select(options.scenarios, problems)) {
    scenarios.push_back(scenario::read_scenario(file, options.overrides, problems));
    // Who marks a project wrongly learns it before the work.
    problems.collect([&] { golden::root_of(file, options.golden_root); });
    require_known_causes(scenarios.back(), problems);
  }
  plan::validate(scenarios, problems);
  problems.throw_if_any();
  return scenarios;
}

scenario::Scenario load_one(RunOptions options, const fs::path& file) {
  options.scenarios = {file};
  const std::vector<scenario::Scenario> scenarios = load(options);
  if (scenarios.size() == 1) return scenarios[0];
  throw InputError({.what = "more than one scenario is named",
                    .where = file.string(),
                    .expected = "one file",
                    .actual = std::to_string(scenarios.size())});
}

const scenario::Variant& variant_option(const scenario::Scenario& scenario, const std::string& name) {
  std::vector<std::string> names;
  for (const scenario::Variant& variant : scenario.variants) {
    if (variant.name == name) return variant;
    names.push_back(variant.name);
  }
  throw InputError({.what = "unknown variant '" + name + "'",
                    .where = scenario.file.string(),
                    .expected = "one of: " + some_of(names, 20),
                    .next = suggest(name, names)});
}

trace::Channel channel_option(const std::string& name) {
  if (const auto channel = trace::channel_named(name)) return *channel;
  throw InputError({.what = "unknown channel '" + name + "'",
                    .where = "--channel",
                    .expected = "one of: " + join(trace::channel_names(), ", "),
                    .next = suggest(name, trace::channel_names())});
}

/// Ranks wait for one another and for files more than half of their time, so cores stay idle with one rank each.
int ranks_at_once(const RunOptions& options) {
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  return options.jobs > 0 ? options.jobs : 4 * cores;
}

std::uint16_t Ports::next() {
  held_.push_back(launch::listen_on_loopback(1));
  return held_.back().port;
}

launch::Job job_in(const plan::Run& run, const fs::path& runs_root, const RunOptions& options, Ports& ports) {
  const fs::path directory = fs::absolute(runs_root / run.name);
  make_directories(directory);
  const bool is_worker = std::holds_alternative<plan::WorkerProgram>(run.program);
  Surroundings around;
  if (is_worker) around.worker = find_worker(options.worker);
  if (!is_worker || !run.launch.other_launcher.empty()) around.port = ports.next();
  return job_of(run, directory, around);
}

namespace {

/// Gives the runs that say nothing of their launcher the one of --launcher.
void choose_launchers(plan::Plan& plan, const std::string& launcher) {
  for (plan::Run& run : plan.runs) {
    scenario::LaunchSpec& launch = run.launch;
    if (launcher.empty() || launch.executed || !launch.other_launcher.empty()) continue;
    const std::string own = std::holds_alternative<plan::WorkerProgram>(run.program) ? scenario::own_launch_key(launch)
                                                                                     : "a program of its own";
    const launch::OtherLauncher* const other = launch::find_other_launcher(launcher);
    launch.executed = launcher == "exec";
    if (other == nullptr) continue;
    if (own.empty() && run.world_size >= other->least_ranks) {
      launch.other_launcher = launcher;
    } else {
      print_line(stderr, "lockstep: " + run.name + " is not started by " + launcher + ": it has " +
                             (own.empty() ? "too few ranks" : own));
    }
  }
}

std::vector<launch::Job> jobs_of(const plan::Plan& plan, const RunOptions& options, const fs::path& runs_root,
                                 const std::vector<std::optional<launch::RunOutcome>>& ended) {
  Ports ports;
  std::vector<launch::Job> jobs;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    const plan::Run& run = plan.runs[i];
    jobs.push_back(ended[i] ? launch::Job{.run = run.name, .after = run.after}
                            : job_in(run, runs_root, options, ports));
  }
  return jobs;
}

/// Notifies one, then the other. *Lifetime*: of both.
class Both : public launch::Observer {
 public:
  Both(launch::Observer& first, launch::Observer* second) : first_(first), second_(second) {}

  void running(const std::vector<launch::Standing>& runs) override { first_.running(runs); }
  void ended(std::size_t job, const launch::RunOutcome& outcome) override {
    first_.ended(job, outcome);
    second_->ended(job, outcome);
  }

 private:
  launch::Observer& first_;
  launch::Observer* second_;
};

std::vector<judge::Evidence> execute_by(launch::ForkServers& servers, plan::Plan& plan, const RunOptions& options,
                                        report::Verbosity verbosity, const fs::path& runs_root,
                                        const Campaign* campaign, launch::Observer* also) {
  std::vector<std::optional<launch::RunOutcome>> ended(plan.runs.size());
  if (campaign != nullptr) ended = campaign->ended();
  choose_launchers(plan, options.launcher);
  const std::vector<launch::Job> jobs = jobs_of(plan, options, runs_root, ended);
  launch::LocalLauncher launcher(ranks_at_once(options), servers);
  std::vector<launch::RunOutcome> outcomes;
  {
    Display display(plan, verbosity);
    for (std::size_t i = 0; i < ended.size(); ++i) {
      if (ended[i]) display.ended(i, *ended[i]);
    }
    OutcomeKeeper keeper(plan, runs_root, display);
    launch::Observer& first = campaign != nullptr ? static_cast<launch::Observer&>(keeper) : display;
    Both both(first, also);
    launch::Observer& observer = also != nullptr ? static_cast<launch::Observer&>(both) : first;
    outcomes = launch::launch_all(jobs, launcher, observer, std::move(ended));
  }
  return judge::read_evidence(plan, std::move(outcomes), runs_root);
}

}  // namespace

std::vector<judge::Evidence> execute(plan::Plan& plan, const RunOptions& options, const fs::path& runs_root,
                                     const Campaign* campaign, launch::Observer* also) {
  launch::ForkServers servers;
  return execute_by(servers, plan, options, options.verbosity, runs_root, campaign, also);
}

experiment::Execute executor_again(const RunOptions& options, const fs::path& runs_root) {
  const auto servers = std::make_shared<std::optional<launch::ForkServers>>();
  return [&options, runs_root, servers](plan::Plan& plan, const experiment::Again& again) {
    if (!again.computes_otherwise || !*servers) servers->emplace();
    const bool is_quiet = options.verbosity == report::Verbosity::kQuiet;
    std::vector<judge::Evidence> evidence =
        execute_by(**servers, plan, options, is_quiet ? report::Verbosity::kQuiet : report::Verbosity::kVerbose,
                   runs_root / again.folder, nullptr, nullptr);
    if (is_interrupted(evidence)) throw Interrupted({.what = "interrupted before the control runs ended"});
    return evidence;
  };
}

void investigate(judge::Verdict& verdict, const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
                 const RunOptions& options, const fs::path& runs_root) {
  if (is_interrupted(evidence)) return;
  fs::remove_all(runs_root / kExperiments);  // a lockstep before this one may have been killed among them
  const experiment::Execute execute = executor_again(options, runs_root / kExperiments);
  experiment::investigate(verdict, plan, evidence, today(), [&](plan::Plan& runs, const experiment::Again& again) {
    print_line(stderr, "lockstep: " + std::to_string(runs.runs.size()) + " runs again: " + again.folder);
    return execute(runs, again);
  });
  name_rows(verdict);  // one that is expected to fail is tried no further
}

void name_rows(judge::Verdict& verdict) {
  for (judge::CheckReport& check : verdict.checks) {
    if (check.result.divergence && check.decided_by.empty()) check.decided_by = name_of(decision::row_of(check.result));
  }
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

void make_way(const std::string& option, const fs::path& target, const std::vector<fs::path>& scenarios) {
  if (target.empty() || target == kStandardOutput) return;
  const std::string prefix = option + (option.ends_with('=') ? "" : " ");
  require_no_kept_file(prefix, target);
  require_no_scenario(prefix, target, scenarios);
  remove_earlier(target);
  require_writable(prefix, target, is_folder(target) ? "" : is_written_through(target) ? target : parent_of(target));
}

void write_result(const fs::path& target, const std::string& text) {
  if (is_written_through(target)) {
    write_through(target, text);
  } else {
    replace_file(target, text);
  }
}

namespace {

/// Formats of the reports that the options name.
std::vector<const report::Format*> formats_of(const RunOptions& options) {
  std::vector<const report::Format*> formats;
  for (const auto& [kind, target] : options.reports) formats.push_back(report::find_format(kind));
  return formats;
}

/// A file is no subject of a result that other values than its own gave.
void require_values_of_files(const RunOptions& options) {
  const std::vector<std::string> overrides = scenario::overrides_of_recipe({.overrides = options.overrides});
  for (const report::Format* format : formats_of(options)) {
    if (!format->vouches_for_files || overrides.empty()) continue;
    throw InputError({.what = "this report makes a statement on the scenario's file, and --set changes its values",
                      .where = "--report " + std::string(format->kind) + "=",
                      .expected = "a scenario as its file has it",
                      .actual = "--set " + join(overrides, " --set "),
                      .next = "write the values into the file, or leave out one of the two options"});
  }
}

/// Removes the files of an earlier report from its folder. No other file may be in it. *Throws*: InputError.
void make_way_for_folder(const std::string& prefix, const fs::path& folder) {
  if (!is_there(folder)) return require_writable(prefix, folder, parent_of(folder));
  for (const std::string& file : files_below(folder)) {
    if (fs::path(file).filename() == report::kEventFile || is_half_written(file)) continue;
    throw InputError({.what = "the folder of a report holds a file that is of no report",
                      .where = prefix + folder.string(),
                      .expected = "a folder that is new or empty, or has files of an earlier report alone",
                      .actual = file,
                      .next = "name another folder"});
  }
  for (const fs::path& entry : entries_of(folder)) fs::remove_all(entry);
  require_writable(prefix, folder, folder);
}

void write_files(const fs::path& folder, const report::Files& files) {
  make_directories(folder);
  for (const auto& [path, content] : files) {
    make_directories((folder / path).parent_path());
    replace_file(folder / path, content);
  }
}

}  // namespace

void make_way(const RunOptions& options) {
  std::map<std::string, fs::path> files, folders;
  for (const auto& [kind, target] : options.reports)
    (report::find_format(kind)->is_folder() ? folders : files)["--report " + kind + "="] = target;
  // One that cannot be written must not keep the others.
  for (const auto& [prefix, target] : files) {
    require_no_kept_file(prefix, target);
    require_no_scenario(prefix, target, options.scenarios);
  }
  for (const auto& [prefix, target] : files) remove_earlier(target);
  for (const auto& [prefix, target] : folders) make_way_for_folder(prefix, target);
  for (const auto& [prefix, target] : files) make_way(prefix, target);
  require_values_of_files(options);
}

void illustrate(judge::Verdict& verdict, const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
                const RunOptions& options) {
  report::Draws draws = report::Draws::kNothing;
  for (const report::Format* format : formats_of(options)) draws = std::max(draws, format->draws);
  if (draws >= report::Draws::kCurves) judge::draw_curves(verdict, plan, evidence);
  if (draws >= report::Draws::kCurvesAndMaps) judge::draw_maps(verdict, plan, evidence, options.golden_root);
}

void write_reports(const RunOptions& options, const judge::Verdict& verdict, const plan::Plan& plan) {
  const bool takes_stdout = std::any_of(options.reports.begin(), options.reports.end(),
                                        [](const auto& report) { return report.second == kStandardOutput; });
  if (!takes_stdout) {
    const auto text = report::make_text_renderer(may_color(STDOUT_FILENO), options.verbosity);
    print_page(stdout, text->render(verdict, plan));
  }
  std::vector<const report::Format*> formats = formats_of(options);
  // A statement that all is well comes last: a report before it may fail.
  std::stable_partition(formats.begin(), formats.end(), [](const auto* format) { return !format->vouches_for_files; });
  for (const report::Format* format : formats) {
    const fs::path& target = options.reports.at(format->kind);
    if (target.empty()) continue;
    if (format->vouches_for_files && std::fflush(stdout) != 0)
      throw ResourceError({.what = "the report cannot be written", .where = "stdout"});
    if (format->is_folder()) {
      write_files(target, format->files(verdict, plan));
    } else if (target == kStandardOutput) {
      print_page(stdout, format->make()->render(verdict, plan));
    } else {
      write_result(target, format->make()->render(verdict, plan));
    }
  }
}

void write_json(const fs::path& target, const Json& value) {
  if (target == kStandardOutput) {
    print_json(stdout, value);
  } else {
    write_result(target, page_of(value));
  }
}

namespace {

Color chosen_color = Color::kWhereItShows;

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

void choose_color(Color color) { chosen_color = color; }

bool may_color(int descriptor) {
  if (chosen_color != Color::kWhereItShows) return chosen_color == Color::kAlways;
  if (is_set("NO_COLOR")) return false;
  if (is_set("FORCE_COLOR")) return true;
  return ::isatty(descriptor) != 0 && is_set("TERM") && std::string(std::getenv("TERM")) != "dumb";
}

}  // namespace lockstep::app
