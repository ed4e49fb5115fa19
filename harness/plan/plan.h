#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "harness/base/json.h"
#include "harness/scenario/scenario.h"

namespace lockstep::plan {

inline constexpr const char* kRunFormat = "lockstep.run/1";

/// Our worker, and everything that it computes; nothing of where it runs.
struct WorkerProgram {
  Json spec;  ///< its RunSpec, the content of run.json
};

/// Somebody's own training program, which starts its ranks itself and is recorded.
struct CommandProgram {
  scenario::ProgramSpec spec;
  std::filesystem::path directory;  ///< absolute, to start it in
  Json header;                      ///< of its traces: the run that they are of
  std::string source;               ///< run whose folder it is given a copy of; empty: none
};

/// Program of a run. Another kind of program is another alternative, and a branch in app/job.cpp.
using Program = std::variant<WorkerProgram, CommandProgram>;

/// One program to launch, and what is known of it: one repeat of one variant.
struct Run {
  std::string name;  ///< "world-size/w2/0": scenario, variant, repeat; also its folder
  std::string scenario;
  std::string variant;
  std::int64_t repeat = 0;
  std::int64_t world_size = 1;
  scenario::LaunchSpec launch;
  Program program;
  std::string train_digest;        ///< SHA-256 over what is computed: world size, training, data
  std::vector<std::size_t> after;  ///< runs whose checkpoints this one takes
};

/// One check between runs.
struct Check {
  std::string scenario;
  std::size_t index = 0;  ///< within its scenario
  scenario::CheckSpec spec;
};

/// Everything that will be run and judged; made without touching a process.
struct Plan {
  std::vector<scenario::Scenario> scenarios;
  std::vector<Run> runs;
  std::vector<Check> checks;

  const scenario::Scenario& scenario(const std::string& name) const;

  /// Indices of the repeats of one variant, in order.
  std::vector<std::size_t> runs_of(const std::string& scenario, const std::string& variant) const;
};

/// Expands scenarios to runs and checks.
/// *Throws*: InputError for two scenarios of one name, or a data file that cannot be read.
Plan make_plan(std::vector<scenario::Scenario> scenarios);

}  // namespace lockstep::plan
