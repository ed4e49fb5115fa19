#pragma once

#include <filesystem>
#include <vector>

namespace lockstep::app {

/// Plots the losses of runs on stdout, and the norms of their gradients if they are recorded. Several runs share a
/// plot. `ascii`: draw in ASCII even where the locale is UTF-8. Returns the exit code: 4 if a trace is torn.
/// *Throws*: InputError if a run has no losses, or there are more runs than letters; as `trace::read_run`.
int show_plots(const std::vector<std::filesystem::path>& traces, bool ascii);

}  // namespace lockstep::app
