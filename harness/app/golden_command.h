#pragma once

#include <CLI/CLI.hpp>

#include "harness/app/options.h"

namespace lockstep::app {

/// Each adds one command to `lockstep golden`.
void add_golden_accept(CLI::App& golden, Action& action);
void add_golden_review(CLI::App& golden, Action& action);
void add_golden_status(CLI::App& golden, Action& action);

}  // namespace lockstep::app
