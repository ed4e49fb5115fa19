#include <cstdio>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/base/text.h"
#include "harness/checks/laws_check.h"
#include "harness/diagnosis/causes.h"
#include "harness/judge/left_out.h"
#include "harness/judge/recorded.h"
#include "harness/report/renderer.h"
#include "harness/trace/entry.h"

namespace lockstep::app {
namespace {

struct CheckOptions {
  std::vector<std::filesystem::path> runs;
  std::filesystem::path json;
};

using checks::CheckResult;

/// All laws against one run, in the order of the table.
struct Checked {
  const judge::Recording& run;
  std::vector<checks::AskedLaw> laws;
  std::string incomplete;  ///< why an end of the run is missing; empty: it is whole

  judge::Status status() const {
    judge::Status worst = judge::Status::kInconclusive;
    for (const checks::AskedLaw& law : laws) {
      if (law.result.divergence) return judge::Status::kDivergence;
      if (law.result.status == CheckResult::Status::kAgree && incomplete.empty()) worst = judge::Status::kAgree;
    }
    return worst;
  }
};

bool loads(const judge::Recording& run) { return run.promises && run.promises->train.checkpoint.load; }

/// The run whose checkpoint each program loads, if it was named, too.
std::vector<const judge::Recording*> savers_among(std::vector<judge::Recording>& runs) {
  std::vector<const judge::Recording*> savers(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (std::size_t j = i + 1; j < runs.size(); ++j) {
      const bool one = loads(runs[i]), other = loads(runs[j]);
      if (one && other) continue;
      judge::connect(runs[i], runs[j]);
      if (!one && loads(runs[i])) savers[i] = &runs[j];
      if (!other && loads(runs[j])) savers[j] = &runs[i];
    }
  }
  return savers;
}

/// The steps that every rank has: where one rank's trace is torn, the others went on.
trace::RunTrace common_steps(trace::RunTrace run) {
  std::int64_t last = std::numeric_limits<std::int64_t>::max();
  for (const trace::Trace& rank : run.ranks) last = std::min(last, rank.steps.empty() ? -2 : rank.steps.back().step);
  for (trace::Trace& rank : run.ranks)
    std::erase_if(rank.steps, [&](const trace::Step& step) { return step.step > last; });
  return run;
}

/// Whether a run without an end would have taken all of its steps is unknown.
void forget_the_end(checks::AskedLaw& asked, const std::string& incomplete) {
  const auto& divergence = asked.result.divergence;
  if (!divergence || asked.law->name != "ledger" || divergence->tensor != trace::entry::kUpdates) return;
  asked.result = {.status = CheckResult::Status::kInconclusive, .compared = asked.result.compared, .why = incomplete};
}

Checked check_run(const judge::Recording& run, const judge::Recording* saver) {
  std::optional<judge::Recording> found;
  if (!run.loaded_from.empty()) saver = &found.emplace(judge::read_recording(run.loaded_from));
  if (saver != nullptr && !saver->promises) saver = nullptr;
  Checked checked{.run = run, .laws = {}, .incomplete = {}};
  if (!run.failed.empty()) checked.incomplete = run.failed;
  if (const std::string torn = run.trace.torn(); !torn.empty()) checked.incomplete = "a trace is torn: " + torn;
  if (run.promises) {
    const bool is_whole = checked.incomplete.empty();
    const trace::RunTrace seen = is_whole ? trace::RunTrace() : common_steps(run.trace);
    checked.laws =
        checks::judge_laws(is_whole ? run.trace : seen, *run.promises, {},
                           saver == nullptr ? checks::Saver() : checks::Saver{&saver->trace, &*saver->promises});
    for (checks::AskedLaw& asked : checked.laws) {
      if (!is_whole) forget_the_end(asked, checked.incomplete);
    }
    return checked;
  }
  const CheckResult untold{.status = CheckResult::Status::kInconclusive,
                           .why = "the recipe is not known: " + run.no_promises};
  for (const laws::Law& law : laws::all_laws()) checked.laws.push_back({.law = &law, .result = untold});
  return checked;
}

const char* word_of(const checks::AskedLaw& law) {
  if (law.result.divergence) return "broken";
  if (!law.applies) return "does not apply";
  return law.result.status == CheckResult::Status::kAgree ? "holds" : "cannot tell";
}

Json to_json(const Checked& checked) {
  Json laws = Json::array();
  for (const checks::AskedLaw& asked : checked.laws) {
    const CheckResult& result = asked.result;
    laws.push_back({{"law", asked.law->name},
                    {"statement", asked.law->statement},
                    {"outcome", word_of(asked)},
                    {"records_judged", result.compared},
                    {"broken_at", result.divergence ? report::to_json(*result.divergence) : Json()},
                    {"cause", result.divergence ? Json(result.divergence->cause_id()) : Json()},
                    {"why", result.why.empty() ? Json() : Json(result.why)}});
  }
  return {{"run", checked.run.trace.run},
          {"status", name_of(checked.status())},
          {"muted_updates", judge::muted_updates(checked.run.trace)},
          {"incomplete", checked.incomplete.empty() ? Json() : Json(checked.incomplete)},
          {"laws", laws}};
}

void print(const Checked& checked) {
  print_line(stdout, checked.run.trace.run + ": " + std::string(name_of(checked.status())) +
                         (checked.incomplete.empty() ? "" : "; " + checked.incomplete + "; what is there was judged"));
  const judge::Recording& run = checked.run;
  if (const std::string muted = judge::muted_text(run.trace); !muted.empty())
    print_line(stdout, "  note        " + muted);
  for (const checks::AskedLaw& asked : checked.laws) {
    const CheckResult& result = asked.result;
    std::string line = "  " + padded(asked.law->name, 10) + "  " + word_of(asked);
    if (!result.why.empty()) line += ", because " + result.why;
    if (result.why.empty()) line += ": " + std::to_string(result.compared) + " records";
    print_line(stdout, line);
    if (result.divergence) print_page(stdout, report::to_text(*result.divergence));
  }
}

int check_runs(const CheckOptions& options) {
  make_way("--json", options.json);
  std::vector<judge::Recording> recordings;
  for (const std::filesystem::path& run : options.runs) recordings.push_back(judge::read_recording(run));
  const std::vector<const judge::Recording*> savers = savers_among(recordings);
  std::vector<Checked> all;
  for (std::size_t i = 0; i < recordings.size(); ++i) all.push_back(check_run(recordings[i], savers[i]));
  judge::Status worst = judge::Status::kAgree;
  Json runs = Json::array();
  for (const Checked& one : all) {
    worst = std::max(worst, one.status());
    runs.push_back(to_json(one));
  }
  if (!options.json.empty())
    write_json(
        options.json,
        {{"format", "lockstep.check/1"}, {"status", name_of(worst)}, {"exit_code", exit_code(worst)}, {"runs", runs}});
  if (options.json != kStandardOutput) {
    for (const Checked& one : all) print(one);
  }
  return exit_code(worst);
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("check", "Judge single runs by laws that every training must keep");
  const auto options = std::make_shared<CheckOptions>();
  command->add_option("runs", options->runs, "Run folders, or trace files")->required();
  add_json_option(*command, options->json);
  run_when_chosen(*command, action, options, check_runs);
}

}  // namespace lockstep::app
