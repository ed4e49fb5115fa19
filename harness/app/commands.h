#pragma once

#include <string>

#include "harness/app/options.h"

namespace lockstep::app {

/// Runs and judges scenarios. Returns the exit code; *throws* the errors of base/error.h.
int run(const RunOptions& options);
/// Tries whether goldens turn red at what they are there to see. Exit code 1: one does not.
int selftest(const RunOptions& options);
/// `part` of the mutations: "1/4".
int mutations(const RunOptions& options, const std::string& part);
/// Writes what another scheduler needs to start the runs, into a new folder: `out`.
int prepare(const RunOptions& options);

/// Each adds one subcommand with its options. Parsing makes `action` what the command does.
void add_run(CLI::App& app, Action& action);
void add_gate(CLI::App& app, Action& action);
void add_launch(CLI::App& app, Action& action);
void add_judge(CLI::App& app, Action& action);
void add_faults(CLI::App& app, Action& action);
void add_blame(CLI::App& app, Action& action);
void add_cost(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_audit(CLI::App& app, Action& action);
void add_record(CLI::App& app, Action& action);
void add_init(CLI::App& app, Action& action);
void add_config(CLI::App& app, Action& action);
void add_golden(CLI::App& app, Action& action);
void add_bisect(CLI::App& app, Action& action);
void add_diff(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_show(CLI::App& app, Action& action);
void add_demo(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);
void add_man(CLI::App& app, Action& action);

}  // namespace lockstep::app
