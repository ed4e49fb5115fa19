#include <algorithm>
#include <cstdio>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/checks/check.h"
#include "harness/compare/rounding.h"
#include "harness/report/text.h"
#include "harness/trace/reader.h"

namespace lockstep::app {
namespace {

/// A run's folder, or the trace of one rank.
trace::RunTrace read_side(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path)) {
    if (!std::filesystem::exists(path / trace::file_name_of_rank(0))) {
      throw InputError({.what = "no run",
                        .where = path.string(),
                        .expected = "a folder that holds " + trace::file_name_of_rank(0),
                        .next = "name the folder of one repeat, such as " + (path / "0").string()});
    }
    return trace::read_run(path, path.string());
  }
  trace::RunTrace run{.run = path.string(), .ranks = {}};
  run.ranks.push_back(trace::read_trace(path));
  return run;
}

std::vector<trace::Channel> channels_of(const std::vector<std::string>& names, bool same_world_size) {
  std::vector<trace::Channel> channels;
  for (const std::string& name : names) {
    const auto channel = trace::channel_named(name);
    if (!channel)
      throw InputError({.what = "unknown channel '" + name + "'",
                        .where = "--channel",
                        .expected = "one of: " + join(trace::channel_names(), ", "),
                        .next = suggest(name, trace::channel_names())});
    channels.push_back(*channel);
  }
  for (const trace::ChannelInfo& row : trace::kChannels) {
    const bool shared = same_world_size || row.channel == trace::Channel::kSamples ||
                        row.channel == trace::Channel::kLoss ||
                        (row.sharing == trace::Sharing::kReplicated && row.channel != trace::Channel::kCollective);
    if (names.empty() && shared) channels.push_back(row.channel);
  }
  std::sort(channels.begin(), channels.end());
  return channels;
}

std::string torn_part(const trace::RunTrace& run) {
  for (const trace::Trace& rank : run.ranks) {
    if (!rank.complete) return rank.origin + ": " + rank.torn;
  }
  return "";
}

}  // namespace

int diff(const DiffOptions& options) {
  const trace::RunTrace left = read_side(options.left), right = read_side(options.right);
  const bool same_world = left.world_size() == right.world_size();
  compare::Comparison comparison =
      compare::compare_runs(left, right, channels_of(options.channels, same_world), compare::bitwise);
  if (comparison.first) compare::name_rounding(*comparison.first, left, right);
  const std::string torn = torn_part(left) + torn_part(right);

  report::Status status = comparison.first ? report::Status::kDivergence : report::Status::kAgree;
  std::string why;
  if (!torn.empty()) why = "a trace is torn (" + torn + "); what is there was compared";
  if (status == report::Status::kAgree && comparison.compared == 0) why = "there was nothing to compare";
  // A torn tail shows as missing steps: that proves nothing about the training.
  const bool only_missing =
      comparison.first && (comparison.first->expected == "no such step" || comparison.first->actual == "no such step");
  if (!why.empty() && (status == report::Status::kAgree || only_missing)) status = report::Status::kInconclusive;

  if (!options.json.empty()) {
    write_json(options.json, {{"format", "lockstep.diff/1"},
                              {"status", name_of(status)},
                              {"exit_code", exit_code(status)},
                              {"records_compared", comparison.compared},
                              {"class", comparison.first ? Json(comparison.first->class_) : Json()},
                              {"first_divergence", comparison.first ? report::to_json(*comparison.first) : Json()},
                              {"why", why.empty() ? Json() : Json(why)}});
  }
  if (options.json != "-") {
    std::printf("%s: %zu records of %s and %s compared%s%s\n", std::string(name_of(status)).c_str(),
                comparison.compared, left.run.c_str(), right.run.c_str(), why.empty() ? "" : "; ", why.c_str());
    if (comparison.first) std::fputs(report::to_text(*comparison.first).c_str(), stdout);
  }
  return exit_code(status);
}

}  // namespace lockstep::app
