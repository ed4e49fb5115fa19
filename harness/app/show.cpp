#include <cstdio>

#include "harness/app/commands.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/compare/difference.h"
#include "harness/report/verdict.h"
#include "harness/trace/reader.h"

namespace lockstep::app {

int show(const ShowOptions& options) {
  if (!options.channel.empty() && !trace::channel_named(options.channel)) {
    throw InputError({.what = "unknown channel '" + options.channel + "'",
                      .where = "--channel",
                      .expected = "one of: " + join(trace::channel_names(), ", "),
                      .next = suggest(options.channel, trace::channel_names())});
  }
  const std::filesystem::path file =
      std::filesystem::is_directory(options.trace) ? options.trace / trace::file_name_of_rank(0) : options.trace;
  const trace::Trace trace = trace::read_trace(file);
  if (trace.header.is_null()) {
    std::printf("%s is torn: %s\n", file.c_str(), trace.torn.c_str());
    return exit_code(report::Status::kInconclusive);
  }
  std::printf("%s\n", trace.header.dump(2).c_str());
  std::size_t shown = 0;
  for (const trace::Step& step : trace.steps) {
    if (options.step && step.step != *options.step) continue;
    for (const trace::Record& record : step.records) {
      if (!options.channel.empty() && name_of(record.channel) != options.channel) continue;
      std::printf("step %lld  %-14s  %-24s  %s\n", static_cast<long long>(step.step),
                  std::string(name_of(record.channel)).c_str(), record.name.c_str(), compare::shown(record).c_str());
      ++shown;
    }
  }
  std::printf("%zu records, %zu steps, %s\n", shown, trace.steps.size(),
              trace.complete ? "complete" : ("torn: " + trace.torn).c_str());
  if (shown == 0 && (options.step || !options.channel.empty())) {
    throw InputError({.what = "the trace has no such record",
                      .where = file.string(),
                      .expected = trace.steps.empty() ? "a trace with steps"
                                                      : "steps " + std::to_string(trace.steps.front().step) + " to " +
                                                            std::to_string(trace.steps.back().step)});
  }
  return exit_code(trace.complete ? report::Status::kAgree : report::Status::kInconclusive);
}

}  // namespace lockstep::app
