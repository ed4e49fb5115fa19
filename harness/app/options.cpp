#include "harness/app/options.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/launch/other_launchers.h"
#include "harness/report/renderer.h"

namespace lockstep::app {

namespace {

/// Whether what is written to one would replace the other. A link is replaced itself; folders may be reached by links.
bool is_one_place(const std::filesystem::path& a, const std::filesystem::path& b) {
  const auto place = [](const std::filesystem::path& target) {
    std::error_code error;
    const std::filesystem::path folder = std::filesystem::absolute(target).parent_path();
    const std::filesystem::path resolved = std::filesystem::weakly_canonical(folder, error);
    return (error ? folder.lexically_normal() : resolved) / target.filename();
  };
  return a == b || (a != kStandardOutput && b != kStandardOutput && place(a) == place(b));
}

}  // namespace

std::string not_empty(const std::string& text) { return text.empty() ? "is empty" : ""; }

CLI::Validator one_of(const std::vector<std::string>& names) {
  const auto check = [names](const std::string& given) -> std::string {
    if (std::find(names.begin(), names.end(), given) != names.end()) return "";
    const auto meant = nearest(given, names);
    return "'" + given + "' is none of " + join(names, ", ") + (meant ? "; did you mean '" + *meant + "'?" : "");
  };
  return {check, "{" + join(names, ",") + "}"};
}

void add_override_option(CLI::App& command, std::vector<std::string>& overrides) {
  command.add_option("--set", overrides, "Override a value of every scenario: train.optimizer.lr=0.2")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);
}

void add_judging_options(CLI::App& command, RunOptions& options) {
  add_override_option(command, options.overrides);
  command
      .add_option(
          "--golden", options.golden_root,
          "Folder of the accepted traces. Default: golden/ beside the nearest lockstep.json above the scenario, "
          "else beside the folder scenarios/, else beside the scenario")
      ->type_name("FOLDER")
      ->check(not_empty);
}

std::vector<CLI::Option*> add_starting_options(CLI::App& command, RunOptions& options) {
  std::vector<std::string> launchers = {"fork", "exec"};
  for (const launch::OtherLauncher& one : launch::other_launchers()) launchers.emplace_back(one.name);
  return {
      command
          .add_option("--launcher", options.launcher,
                      "Launcher of runs whose scenario names none: " + join(launchers, ", "))
          ->type_name("KIND")
          ->check(one_of(launchers)),
      command.add_option("--worker", options.worker, "The lockstep-worker to start. Default: the one beside lockstep")
          ->type_name("FILE")
          ->check(not_empty),
      command.add_option("--jobs", options.jobs, "Ranks that run at once. Default: four for each core")
          ->type_name("N")
          ->check(CLI::Range(1, 100000))};
}

void add_run_options(CLI::App& command, RunOptions& options) {
  add_judging_options(command, options);
  command
      .add_option("--out", options.out,
                  "Folder for traces; must be empty. Default: a temporary one, kept unless all agree")
      ->type_name("FOLDER")
      ->check(not_empty);
  add_starting_options(command, options);
}

void add_json_option(CLI::App& command, std::filesystem::path& json) {
  command.add_option("--json", json, "Write the machine-readable result; '-' is stdout")
      ->type_name("FILE")
      ->check(not_empty);
}

void add_stop_after(CLI::App& command, std::int64_t& updates) {
  command.add_option("--stop-after", updates, "End a recorded program in Python after so many updates, on all ranks")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000000000}));
}

void add_propose_option(CLI::App& command, RunOptions& options) {
  command
      .add_option("--propose", options.proposals,
                  "Folder for proposals of goldens. Default: pending/ in the goldens' folder; none if CI is set")
      ->type_name("FOLDER")
      ->check(not_empty);
}

void add_verbosity_options(CLI::App& command, RunOptions& options) {
  const auto add = [&](const char* name, report::Verbosity verbosity, const char* text) {
    return command.add_flag_callback(
        name, [&options, verbosity] { options.verbosity = verbosity; }, text);
  };
  add("--quiet", report::Verbosity::kQuiet, "Print only failures, what was not compared, and the last line")
      ->excludes(add("--verbose", report::Verbosity::kVerbose, "Print a line for each run and each check, too"));
}

void add_report_options(CLI::App& command, RunOptions& options) {
  std::vector<std::string> kinds;
  for (const report::Format& format : report::formats()) kinds.emplace_back(format.kind);
  const auto add = [&options, kinds](const std::string& kind, const std::string& file) {
    const auto refuse = [&](const std::string& what, const std::string& next) {
      throw InputError(
          {.what = what, .where = "--report " + kind + "=" + file, .expected = "", .actual = "", .next = next});
    };
    if (report::find_format(kind) == nullptr) refuse("there is no such report", suggest(kind, kinds));
    const bool is_folder = report::find_format(kind)->is_folder();
    if (is_folder && file == kStandardOutput)
      refuse("a report of several files cannot go to stdout", "write --report " + kind + "=FOLDER");
    if (file.empty()) refuse("a report needs a file", "write --report " + kind + "=FILE; '-' is stdout");
    for (const auto& [other, target] : options.reports) {
      if (other == kind) refuse("the report '" + kind + "' is asked for twice", "name one file");
      if (is_one_place(target, file)) refuse("two reports go to one place", "give each a file of its own");
    }
    options.reports[kind] = file;
  };
  command
      .add_option_function<std::string>(
          "--json", [add](const std::string& file) { add("json", file); },
          "Write the machine-readable result; '-' is stdout. The same as --report json=FILE")
      ->type_name("FILE")
      ->check(not_empty);
  command
      .add_option_function<std::vector<std::string>>(
          "--report",
          [add](const std::vector<std::string>& all) {
            for (const std::string& one : all) {
              const std::size_t sign = std::min(one.find('='), one.size());
              add(one.substr(0, sign), sign < one.size() ? one.substr(sign + 1) : "");
            }
          },
          "Write a report, as often as given; KIND is " + join(kinds, ", ") +
              "; '-' is stdout. The one for tensorboard is a folder")
      ->type_name("KIND=FILE")
      ->allow_extra_args(false);
}

}  // namespace lockstep::app
