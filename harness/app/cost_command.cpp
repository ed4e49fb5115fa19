// lockstep cost: how much longer a step of one variant takes than a step of another, as a gate.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "harness/app/commands.h"
#include "harness/app/cost.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/experiment/control.h"
#include "harness/report/renderer.h"

namespace lockstep::app {
namespace {

struct CostOptions {
  RunOptions run;  ///< its scenarios are not looked at
  std::filesystem::path scenario;
  std::string variant, against;
  std::optional<double> at_most;  ///< ratio
  std::int64_t rounds = 5;
  std::int64_t steps = 20;  ///< updates of a short run
};

/// A run that did not end well: its verdict is the result.
struct Failed {
  plan::Plan plan;
  judge::Verdict verdict;
};

/// Changes that let a variant make so many updates, and as little else as possible. The first and the last of them are
/// recorded, in a long run as in a short one: this time is no part of a step.
Json patch_for(const scenario::Scenario& scenario, const scenario::Variant& variant, std::int64_t updates) {
  if (variant.program) return {{"program", {{"stop_after", updates}, {"record", {{"every", updates - 1}}}}}};
  const Json record = {{"every", updates - 1}, {"capture", Json::array()}};
  const Json checkpoint = {{"save_after", nullptr}, {"save_every", nullptr}};
  return {{"train",
           {{"steps", scenario::updates_before(variant, scenario) + updates},
            {"record", record},
            {"checkpoint", checkpoint}}}};
}

/// The scenario with this variant alone and those whose checkpoints it takes, which stay as they are.
scenario::Scenario shortened(const scenario::Scenario& scenario, const std::string& name, std::int64_t updates) {
  scenario::Scenario short_one = experiment::under(experiment::unchanged("cost"), scenario, {name});
  for (scenario::Variant& variant : short_one.variants) {
    if (variant.name != name) continue;
    variant = scenario::patched(variant, patch_for(scenario, variant, updates), scenario.file.string());
  }
  return short_one;
}

/// A program may end by itself before it is stopped. Our worker's trace would not be whole.
void require_updates(const trace::RunTrace& run, std::int64_t updates, const scenario::Scenario& scenario) {
  const std::vector<trace::Step>& steps = run.ranks.at(0).steps;
  const auto first = std::find_if(steps.begin(), steps.end(), [](const trace::Step& step) { return step.step >= 0; });
  const std::int64_t made = first == steps.end() ? 0 : steps.back().step - first->step + 1;
  if (made >= updates) return;
  throw InputError({.what = "the program of " + run.run + " ends by itself before it is stopped",
                    .where = scenario.file.string(),
                    .expected = std::to_string(updates) + " updates",
                    .actual = "fewer",
                    .next = "fewer --steps: a long run makes three times as many updates"});
}

/// Runs the two variants, one run at a time, until one fails.
class Stopwatch {
 public:
  /// *Lifetime*: borrows the scenario.
  Stopwatch(const scenario::Scenario& scenario, experiment::Execute execute)
      : scenario_(scenario), execute_(std::move(execute)) {}

  /// Seconds of a run of this variant; 0 from the first failure on.
  double run_s(const std::string& variant, std::int64_t updates) {
    if (failed_) return 0;
    plan::Plan plan = plan::make_plan({shortened(scenario_, variant, updates)});
    // The processes that fork ranks stay: to begin one takes long, and no part of a step.
    const std::vector<judge::Evidence> evidence =
        execute_(plan, {.folder = std::to_string(runs_++), .computes_otherwise = true});
    judge::Verdict verdict = judge::judge(plan, evidence, "", today());
    if (!verdict.runs.empty()) {
      failed_ = {.plan = std::move(plan), .verdict = std::move(verdict)};
      return 0;
    }
    const judge::Evidence& measured = evidence.at(plan.runs_of(scenario_.name, variant).at(0));
    if (scenario_.variant(variant).program) require_updates(*measured.trace, updates, scenario_);
    return measured.outcome.wall_s;
  }

  const std::optional<Failed>& failed() const { return failed_; }

 private:
  const scenario::Scenario& scenario_;
  const experiment::Execute execute_;
  std::int64_t runs_ = 0;
  std::optional<Failed> failed_;
};

/// In every other round the second variant goes first: whatever slows the machine down hits both alike.
CostRound measured(Stopwatch& watch, const CostOptions& options, std::int64_t round) {
  std::array<std::string, 2> order = {options.variant, options.against};
  if (round % 2 == 1) std::swap(order[0], order[1]);
  std::array<double, 2> short_s = {}, long_s = {};
  for (std::size_t i : {0U, 1U}) short_s[i] = watch.run_s(order[i], options.steps);
  for (std::size_t i : {0U, 1U}) long_s[i] = watch.run_s(order[i], kLongRun * options.steps);
  std::array<double, 2> seconds = {};
  for (std::size_t i : {0U, 1U}) seconds[i] = step_s(short_s[i], long_s[i], options.steps);
  if (round % 2 == 1) std::swap(seconds[0], seconds[1]);
  return {.variant_s = seconds[0], .against_s = seconds[1]};
}

std::vector<CostRound> all_rounds(Stopwatch& watch, const CostOptions& options) {
  // The first run of each loads programs and data.
  for (const std::string& name : {options.variant, options.against}) watch.run_s(name, options.steps);
  std::vector<CostRound> rounds;
  for (std::int64_t round = 0; round < options.rounds && !watch.failed(); ++round) {
    print_line(stderr, "lockstep: round " + std::to_string(round + 1) + " of " + std::to_string(options.rounds));
    rounds.push_back(measured(watch, options, round));
  }
  return rounds;
}

std::string to_text(const Quartiles& quartiles, double unit) {
  return rounded(quartiles.median * unit, 4) + " (" + rounded(quartiles.lower * unit, 4) + " to " +
         rounded(quartiles.upper * unit, 4) + ")";
}

std::string to_text(const Cost& cost, const CostOptions& options) {
  constexpr double kMilliseconds = 1000;
  const std::size_t width = std::max(options.variant.size(), options.against.size());
  const auto line = [&](const std::string& title, const std::string& text) {
    return "  " + padded(printable(title), width) + "  " + text + "\n";
  };
  std::string out;
  if (cost.ratio) {
    out += line(options.variant, to_text(*cost.variant_s, kMilliseconds) + " ms a step");
    out += line(options.against, to_text(*cost.against_s, kMilliseconds) + " ms a step");
  }
  out += std::string(name_of(cost.status)) + ": ";
  if (cost.ratio) out += "ratio " + to_text(*cost.ratio, 1) + " in ";
  out += std::to_string(cost.valid) + " of " + std::to_string(options.rounds) + " rounds";
  for (const std::string& more : {cost.why, cost.next.empty() ? "" : "next: " + cost.next})
    out += (more.empty() ? "" : ", ") + more;
  return out + "\n";
}

Json to_json(const std::optional<Quartiles>& quartiles) {
  if (!quartiles) return nullptr;
  return {{"lower", quartiles->lower}, {"median", quartiles->median}, {"upper", quartiles->upper}};
}

Json to_json(const Cost& cost, const std::vector<CostRound>& rounds, const CostOptions& options) {
  Json all = Json::array();
  for (const CostRound& round : rounds)
    all.push_back({{"variant_s", round.variant_s},
                   {"against_s", round.against_s},
                   {"ratio", round.is_valid() ? Json(round.ratio()) : Json()}});
  return {{"format", "lockstep.cost/1"},
          {"status", name_of(cost.status)},
          {"exit_code", exit_code(cost.status)},
          {"variant", options.variant},
          {"against", options.against},
          {"steps", options.steps},
          {"at_most", options.at_most ? Json(*options.at_most) : Json()},
          {"rounds", all},
          {"variant_s", to_json(cost.variant_s)},
          {"against_s", to_json(cost.against_s)},
          {"ratio", to_json(cost.ratio)},
          {"why", cost.why},
          {"next", cost.next}};
}

int report(const RunOptions& options, judge::Status status, const std::string& text, const Json& json) {
  if (options.json() != kStandardOutput) print_page(stdout, text);
  if (!options.json().empty()) write_json(options.json(), json);
  return exit_code(status);
}

int report(const RunOptions& options, const Failed& failed) {
  Json json = report::to_json(failed.verdict, failed.plan);
  json["format"] = "lockstep.cost/1";
  return report(options, failed.verdict.status(),
                report::make_text_renderer(may_color(STDOUT_FILENO))->render(failed.verdict, failed.plan), json);
}

int cost(const CostOptions& options) {
  make_way("--json", options.run.json(), {options.scenario});
  if (options.at_most && !std::isfinite(*options.at_most))
    throw InputError({.what = "the largest ratio is no number", .where = "--at-most", .expected = "such as 1.25"});
  if (options.at_most && options.rounds < static_cast<std::int64_t>(kLeastRounds))
    throw InputError({.what = "so few rounds decide nothing",
                      .where = "--rounds " + std::to_string(options.rounds),
                      .expected = std::to_string(kLeastRounds) + " or more, where --at-most is given"});
  const scenario::Scenario scenario = load_one(options.run, options.scenario);
  for (const std::string& name : {options.variant, options.against}) variant_option(scenario, name);
  if (options.variant == options.against)
    throw InputError({.what = "both sides are the variant '" + options.variant + "'",
                      .where = scenario.file.string(),
                      .expected = "two variants"});
  RunOptions quiet = options.run;
  quiet.verbosity = report::Verbosity::kQuiet;
  RunsFolder runs(options.run.out);
  Stopwatch watch(scenario, executor_again(quiet, runs.path()));
  const std::vector<CostRound> rounds = all_rounds(watch, options);
  if (watch.failed()) {
    runs.keep();
    return report(options.run, *watch.failed());
  }
  const Cost found = cost_of(rounds, options.at_most);
  return report(options.run, found.status, to_text(found, options), to_json(found, rounds, options));
}

}  // namespace

void add_cost(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("cost", "Measure how much longer a step of one variant takes than a step of another");
  const auto options = std::make_shared<CostOptions>();
  command->add_option("scenario", options->scenario, "Scenario file")->required()->check(not_empty);
  command->add_option("--variant", options->variant, "Variant whose cost is asked")->required()->check(not_empty);
  command->add_option("--against", options->against, "Variant to compare it with")->required()->check(not_empty);
  command
      ->add_option("--at-most", options->at_most,
                   "Largest ratio of their steps that is allowed; beyond it the exit code is 1. Default: any")
      ->check(CLI::PositiveNumber);
  command->add_option("--rounds", options->rounds, "Rounds: in each, both variants run twice. Default: 5")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1000}));
  command
      ->add_option(
          "--steps", options->steps,
          "Updates of a short run; a long one makes three times as many, and the difference counts. Default: 20")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{100000000}));
  add_run_options(*command, options->run);
  add_json_option(*command, options->run.reports["json"]);
  run_when_chosen(*command, action, options, cost);
}

}  // namespace lockstep::app
