#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/report/renderer.h"

namespace lockstep::app {

/// A file name that stands for the standard output.
inline constexpr const char* kStandardOutput = "-";

/// The command that was chosen. Returns the exit code; *throws* the errors of base/error.h.
using Action = std::function<int()>;

/// Options that choose runs and outputs. Only the scenario says what a training computes.
struct RunOptions {
  std::vector<std::filesystem::path> scenarios;  ///< files, or folders whose *.json and *.jsonc are taken
  std::vector<std::string> overrides;
  std::filesystem::path out;          ///< folder for traces; empty: a temporary one, kept unless all agree
  std::filesystem::path golden_root;  ///< empty: that of each scenario's project (golden/root.h)
  std::filesystem::path worker;       ///< empty: beside lockstep
  std::string launcher;               ///< launch.kind of runs that choose none; "": as they say
  int jobs = 0;                       ///< ranks at once; 0: four for each core
  std::map<std::string, std::filesystem::path> reports;  ///< by kind: "json"; "-": stdout
  std::filesystem::path proposals;  ///< folder for proposals of goldens; empty: pending/ beside them
  report::Verbosity verbosity = report::Verbosity::kUsual;
  bool resume = false;  ///< resumes the runs in `out` that an earlier lockstep left

  /// Where the option --json says; empty: nowhere.
  std::filesystem::path json() const {
    const auto found = reports.find("json");
    return found == reports.end() ? std::filesystem::path() : found->second;
  }
};

/// Check of an option that names a file: an empty name, as an unset variable leaves it, is a slip and no default.
std::string not_empty(const std::string& text);

/// --set.
void add_override_option(CLI::App& command, std::vector<std::string>& overrides);

/// Options of all commands that judge scenarios.
void add_judging_options(CLI::App& command, RunOptions& options);

/// Options of those that start runs.
std::vector<CLI::Option*> add_starting_options(CLI::App& command, RunOptions& options);

/// Options that judge and start runs, and --out.
void add_run_options(CLI::App& command, RunOptions& options);

/// Check of an option's value; another value is answered by the one that was meant.
CLI::Validator one_of(const std::vector<std::string>& names);

/// --report and --json.
void add_report_options(CLI::App& command, RunOptions& options);

/// --stop-after.
void add_stop_after(CLI::App& command, std::int64_t& updates);

/// --propose.
void add_propose_option(CLI::App& command, RunOptions& options);

/// --quiet and --verbose.
void add_verbosity_options(CLI::App& command, RunOptions& options);

/// --json of a command with a result of its own.
void add_json_option(CLI::App& command, std::filesystem::path& json);

/// Makes a command's function the action if the command line names the command.
template <typename Options>
void run_when_chosen(CLI::App& command, Action& action, const std::shared_ptr<Options>& options,
                     int (*run)(const Options&)) {
  command.callback([=, &action] { action = [=] { return run(*options); }; });
}

}  // namespace lockstep::app
