#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <set>
#include <system_error>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/checks/check.h"
#include "harness/compare/checkpoints.h"
#include "harness/compare/rests.h"
#include "harness/compare/rounding.h"
#include "harness/compare/scope.h"
#include "harness/decision/decision.h"
#include "harness/judge/left_out.h"
#include "harness/judge/recorded.h"
#include "harness/report/renderer.h"
#include "harness/trace/modules.h"

namespace lockstep::app {
namespace {

struct DiffOptions {
  std::filesystem::path left;
  std::filesystem::path right;
  std::vector<std::string> channels;
  std::filesystem::path json;
};

std::vector<trace::Channel> channels_named(const std::vector<std::string>& names) {
  std::vector<trace::Channel> channels;
  for (const std::string& name : names) channels.push_back(channel_option(name));
  return channels;
}

std::vector<trace::Channel> comparable_channels(bool same_world_size) {
  return trace::channels_that(
      [&](const trace::ChannelInfo& row) { return same_world_size || row.across == trace::Across::kAllShapes; });
}

/// The first bits that differ, of traces of which nothing more is known.
checks::CheckResult judge_traces(const trace::RunTrace& left, const trace::RunTrace& right,
                                 std::vector<trace::Channel> channels) {
  if (channels.empty()) channels = comparable_channels(left.world_size() == right.world_size());
  std::sort(channels.begin(), channels.end());
  checks::CheckResult result = checks::result_of(compare::compare_runs(left, right, channels, compare::bitwise));
  if (result.divergence) compare::name_rounding(*result.divergence, left, right);
  return result;
}

checks::CheckResult judge_with_promises(const judge::Recording& left, const judge::Recording& right,
                                        const std::vector<trace::Channel>& channels) {
  std::optional<judge::Recording> source;
  for (const judge::Recording* side : {&left, &right}) {
    if (!side->loaded_from.empty()) source = judge::read_recording(side->loaded_from);
  }
  const auto of = [](const judge::Recording& run) { return judge::Recorded{&run.trace, &*run.promises}; };
  return judge::judge_pair(of(left), of(right), channels,
                           source && source->promises ? std::optional(of(*source)) : std::nullopt);
}

/// Compares what recorders of programs tell beside two traces that agree. Other shapes round otherwise.
std::optional<compare::Divergence> compare_beside(const judge::Recording& left, const judge::Recording& right,
                                                  std::vector<std::string>& notes) {
  const std::int64_t world_size = left.trace.world_size();
  if (!compare::same_shape(left.trace, right.trace)) return std::nullopt;
  const auto ours = trace::read_checkpoint_files(left.folder, world_size),
             theirs = trace::read_checkpoint_files(right.folder, world_size);
  compare::CheckpointComparison checkpoints = compare::compare_checkpoints({left.trace, ours}, {right.trace, theirs});
  notes = std::move(checkpoints.notes);
  for (std::int64_t rank = 0; rank < world_size && !checkpoints.first; ++rank) {
    const auto our_rest = trace::read_rest(left.folder, rank), their_rest = trace::read_rest(right.folder, rank);
    checkpoints.first = compare::compare_rests({left.trace, our_rest}, {right.trace, their_rest}, rank);
  }
  return checkpoints.first;
}

/// Leaves the steps that every rank of a torn run has. With a rank that ended earlier, the batch of a step is no global
/// one, and its missing part no mistake.
void cut_at_tear(trace::RunTrace& run) {
  if (run.torn().empty()) return;
  const auto all_have = [&](std::int64_t step) {
    return std::all_of(run.ranks.begin(), run.ranks.end(),
                       [&](const trace::Trace& rank) { return rank.find(step) != nullptr; });
  };
  std::set<std::int64_t> common;
  for (const trace::Step& step : run.ranks[0].steps) {
    if (all_have(step.step)) common.insert(step.step);
  }
  for (trace::Trace& rank : run.ranks)
    std::erase_if(rank.steps, [&](const trace::Step& step) { return !common.contains(step.step); });
}

/// Steps that a torn trace lacks prove nothing about the training.
void take_causes_back(compare::Divergence& at) {
  at.class_.reset();
  at.suspects.clear();
  at.patterns.clear();
  at.cause = "the recording ends here: what follows is unknown";
}

/// Whether both sides are the same files.
bool is_one_recording(const trace::RunTrace& left, const trace::RunTrace& right) {
  return std::equal(left.ranks.begin(), left.ranks.end(), right.ranks.begin(), right.ranks.end(),
                    [](const trace::Trace& one, const trace::Trace& other) {
                      std::error_code ignored;
                      return std::filesystem::equivalent(one.origin, other.origin, ignored);
                    });
}

bool has_update(const trace::RunTrace& run) {
  return std::any_of(run.ranks.begin(), run.ranks.end(), [](const trace::Trace& rank) {
    return !rank.steps.empty() && rank.steps.back().step > trace::kInitialStep;
  });
}

/// Why it shows nothing that two recordings agree; empty: it does.
std::string why_agreement_is_empty(const trace::RunTrace& left, const trace::RunTrace& right) {
  if (is_one_recording(left, right))
    return "both are the same recording (" + left.ranks[0].origin + "): it agrees with itself, which shows nothing";
  if (!has_update(left) && !has_update(right)) return "neither recording holds an update: no computation was compared";
  return "";
}

/// Channels that would be compared if both sides recorded them; none where the user names channels.
std::vector<std::string> channels_not_compared(const judge::Recording& left, const judge::Recording& right,
                                               const std::vector<trace::Channel>& named) {
  if (!named.empty() || !left.promises || !right.promises) return {};
  return judge::channels_left_out(comparable_channels(compare::same_shape(left.trace, right.trace)),
                                  {&*left.promises, &*right.promises}, {&left.trace, &right.trace});
}

/// "one; other"; what says nothing is left out.
std::string both(const std::string& one, const std::string& other) {
  return one + (one.empty() || other.empty() ? "" : "; ") + other;
}

int diff(const DiffOptions& options) {
  make_way("--json", options.json);
  judge::Recording left = judge::read_recording(options.left), right = judge::read_recording(options.right);
  cut_at_tear(left.trace);
  cut_at_tear(right.trace);
  const std::string connection = judge::connect(left, right);
  const std::vector<trace::Channel> channels = channels_named(options.channels);
  checks::CheckResult result = left.promises && right.promises ? judge_with_promises(left, right, channels)
                                                               : judge_traces(left.trace, right.trace, channels);
  const std::string torn = both(left.trace.torn(), right.trace.torn()), failed = both(left.failed, right.failed);
  std::vector<std::string> notes;
  if (channels.empty() && result.status == checks::CheckResult::Status::kAgree && torn.empty() && failed.empty())
    result.divergence = compare_beside(left, right, notes);
  const bool is_whole = torn.empty() && failed.empty();
  const bool only_missing = result.divergence && result.divergence->lacks(compare::Missing::kStep);
  if (!is_whole && only_missing) take_causes_back(*result.divergence);
  const auto& first = result.divergence;

  judge::Status status = first ? judge::Status::kDivergence : judge::Status::kAgree;
  std::string why = both(connection, result.why);
  if (!failed.empty()) why = failed + "; what is there was compared";
  if (!torn.empty()) why = "a trace is torn (" + torn + "); what is there was compared";
  if (!first && result.status != checks::CheckResult::Status::kAgree) status = judge::Status::kInconclusive;
  const std::string empty = why_agreement_is_empty(left.trace, right.trace);
  const std::string muted = judge::muted_otherwise({&left.trace, &right.trace});
  for (const std::string& reason : {muted, empty}) {
    if (first || reason.empty() || status > judge::Status::kInconclusive) continue;
    status = judge::Status::kInconclusive;
    why = both(reason, why);
  }
  const std::vector<std::string> modules = trace::modules_that_differ(left.trace, right.trace);
  const std::vector<std::string> not_compared = channels_not_compared(left, right, channels);
  if (!is_whole && (!first || only_missing)) status = judge::Status::kInconclusive;

  if (!options.json.empty()) {
    write_json(options.json, {{"format", "lockstep.diff/1"},
                              {"status", name_of(status)},
                              {"exit_code", exit_code(status)},
                              {"records_compared", result.compared},
                              {"not_compared", not_compared},
                              {"modules_that_differ", modules},
                              {"class", first ? Json(first->class_name()) : Json()},
                              {"cause", first ? Json(first->cause_id()) : Json()},
                              {"decided_by", first ? Json(name_of(decision::row_of(result))) : Json()},
                              {"first_divergence", first ? report::to_json(*first) : Json()},
                              {"why", why.empty() ? Json() : Json(why)}});
  }
  if (options.json != kStandardOutput) {
    print_line(stdout, std::string(name_of(status)) + ": " + std::to_string(result.compared) + " records of " +
                           left.trace.run + " and " + right.trace.run + " compared" + (why.empty() ? "" : "; " + why));
    if (!modules.empty()) notes.push_back("modules of the program that differ: " + some_of(modules, 5));
    if (!not_compared.empty())
      notes.push_back("not compared, because one side or both did not record it: " + join(not_compared, ", "));
    for (const judge::Recording* side : {&left, &right}) {
      const std::string steps = side->promises ? judge::steps_left_out(side->trace, *side->promises) : "";
      for (const std::string& left_out : {steps, judge::muted_text(side->trace), judge::unread_text(side->trace)}) {
        if (!left_out.empty()) notes.push_back(side->trace.run + ": " + left_out);
      }
    }
    for (const std::string& note : notes) print_line(stdout, "  note        " + note);
    if (first) print_page(stdout, report::to_text(*first));
    for (const judge::Recording* side : {&left, &right}) {
      if (first && !side->promises) print_line(stdout, "  note        causes are not searched: " + side->no_promises);
    }
  }
  return exit_code(status);
}

}  // namespace

void add_diff(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("diff", "Find the first difference between two traces or run folders");
  const auto options = std::make_shared<DiffOptions>();
  command->add_option("left", options->left, "Trace file or run folder")->required();
  command->add_option("right", options->right, "Trace file or run folder")->required();
  command->add_option("--channel", options->channels, "Compare these channels only")->allow_extra_args(false);
  add_json_option(*command, options->json);
  run_when_chosen(*command, action, options, diff);
}

}  // namespace lockstep::app
