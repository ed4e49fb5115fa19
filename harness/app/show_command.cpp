#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/app/show_plot.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/compare/difference.h"
#include "harness/judge/verdict.h"
#include "harness/trace/reader.h"

namespace lockstep::app {
namespace {

struct ShowOptions {
  std::vector<std::filesystem::path> traces;
  std::optional<std::int64_t> step;
  std::string channel;
  bool header = false;
  bool plot = false;
  bool ascii = false;
};

/// The lines of the records that are asked for.
std::vector<std::string> lines_of(const trace::Trace& trace, const ShowOptions& options) {
  std::vector<std::string> lines;
  for (const trace::Step& step : trace.steps) {
    if (options.step && step.step != *options.step) continue;
    for (const trace::Record& record : step.records) {
      if (!options.channel.empty() && name_of(record.channel) != options.channel) continue;
      lines.push_back("step " + std::to_string(step.step) + "  " + padded(name_of(record.channel), 14) + "  " +
                      padded(record.name, 24) + "  " + compare::shown(record));
    }
  }
  return lines;
}

/// What is wrong with the traces of the other ranks of a run, each in a line.
std::vector<std::string> amiss_beside(const trace::Trace& first, const std::filesystem::path& folder) {
  std::vector<std::string> amiss;
  try {
    const trace::RunTrace run = trace::read_run(folder, folder.string());
    for (const trace::Trace& rank : run.ranks) {
      if (!rank.complete && rank.origin != first.origin) amiss.push_back(rank.origin + " is torn: " + rank.torn);
    }
  } catch (const Error& error) {
    amiss.push_back(error.problem().what + " (" + error.problem().where + ")");
  }
  return amiss;
}

int show(const ShowOptions& options) {
  if (options.plot) return show_plots(options.traces, options.ascii);
  if (options.traces.size() > 1)
    throw InputError({.what = "several traces are shown as a plot only",
                      .where = "lockstep show",
                      .expected = "one trace, or --plot",
                      .actual = std::to_string(options.traces.size()) + " traces",
                      .next = "show them one after another, add --plot, or compare two: lockstep diff"});
  const std::filesystem::path& shown = options.traces.front();
  if (!options.channel.empty()) channel_option(options.channel);
  const bool is_run = is_folder(shown);
  const std::filesystem::path file = is_run ? shown / trace::file_name_of_rank(0) : shown;
  const trace::Trace trace = trace::read_trace(file);
  if (trace.header.is_null()) {
    print_line(stdout, file.string() + " is torn: " + trace.torn);
    return exit_code(judge::Status::kInconclusive);
  }
  const std::vector<std::string> lines = lines_of(trace, options);
  if (lines.empty() && (options.step || !options.channel.empty())) {
    throw InputError({.what = "the trace has no such record",
                      .where = file.string(),
                      .expected = trace.steps.empty() ? "a trace with steps"
                                                      : "steps " + std::to_string(trace.steps.front().step) + " to " +
                                                            std::to_string(trace.steps.back().step)});
  }
  if (options.header) print_json(stdout, trace.header);
  for (const std::string& line : lines) print_line(stdout, line);
  print_line(stdout, std::to_string(lines.size()) + " records, " + std::to_string(trace.steps.size()) + " steps, " +
                         (trace.complete ? "complete" : "torn: " + trace.torn));
  const std::vector<std::string> amiss = is_run ? amiss_beside(trace, shown) : std::vector<std::string>();
  for (const std::string& line : amiss) print_line(stdout, "another rank: " + line);
  const bool is_whole = trace.complete && amiss.empty();
  return exit_code(is_whole ? judge::Status::kAgree : judge::Status::kInconclusive);
}

}  // namespace

void add_show(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("show", "Print a trace");
  const auto options = std::make_shared<ShowOptions>();
  command->add_option("trace", options->traces, "Trace file, or run folder (rank 0). With --plot: several")->required();
  CLI::Option* const step = command->add_option("--step", options->step, "Only this step");
  CLI::Option* const channel = command->add_option("--channel", options->channel, "Only this channel");
  CLI::Option* const header =
      command->add_flag("--header", options->header, "Print the header first: versions, recipe, environment");
  CLI::Option* const plot =
      command->add_flag("--plot", options->plot, "Plot the losses of all ranks, and the norm of the gradient");
  plot->excludes(step)->excludes(channel)->excludes(header);
  command->add_flag("--ascii", options->ascii, "Draw the plot in ASCII, as where the locale is not UTF-8")->needs(plot);
  run_when_chosen(*command, action, options, show);
}

}  // namespace lockstep::app
