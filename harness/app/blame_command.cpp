#include <chrono>
#include <cstdio>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/experiment/blame.h"
#include "harness/report/renderer.h"

namespace lockstep::app {
namespace {

struct BlameOptions {
  RunOptions run;  ///< its scenarios are not looked at
  std::filesystem::path scenario;
  std::string left, right;  ///< variants; empty: the scenario's two
  std::string that;         ///< relation; empty: by what the two are
  std::string vary;         ///< controls; empty: all
};

/// Whether two trainings cut their batches alike, as far as their recipes say.
bool same_shape(const scenario::Variant& left, const scenario::Variant& right) {
  const auto batch_of = [](const scenario::Variant& variant) {
    return (variant.program ? variant.promises_json : variant.train_json).value("batch", Json());
  };
  return left.world_size == right.world_size && batch_of(left) == batch_of(right);
}

blaming::Parties parties_of(const scenario::Scenario& scenario, const BlameOptions& options) {
  blaming::Parties parties{.left = options.left, .right = options.right};
  if (parties.right.empty() && parties.left.empty() && scenario.variants.size() == 2) {
    parties.left = scenario.variants[0].name;
    parties.right = scenario.variants[1].name;
  }
  if (parties.left.empty() || parties.right.empty())
    throw InputError({.what = "two trainings must be named",
                      .where = scenario.file.string(),
                      .expected = "two variants, or one and 'golden'",
                      .next = "lockstep blame SCENARIO LEFT RIGHT"});
  const scenario::Variant& left = variant_option(scenario, parties.left);
  if (parties.right == name_of(scenario::CheckKind::kGolden)) {
    parties.that = scenario::CheckKind::kGolden;
    return parties;
  }
  const scenario::Variant& right = variant_option(scenario, parties.right);
  if (&left == &right)
    throw InputError({.what = "both sides are the variant '" + left.name + "'",
                      .where = scenario.file.string(),
                      .next = "to compare a training with itself, use the check 'repeatable'"});
  const auto fitting = same_shape(left, right) ? scenario::CheckKind::kEqual : scenario::CheckKind::kRounding;
  parties.that = scenario::check_kind_named(options.that).value_or(fitting);
  return parties;
}

std::string to_text(const blaming::Blame& blame) {
  std::string out;
  std::size_t width = 0;
  for (const blaming::ControlResult& one : blame.controls) width = std::max(width, one.control.name().size());
  if (!blame.controls.empty()) out += "\nThe difference under each control of both sides:\n";
  for (const blaming::ControlResult& one : blame.controls)
    out += "  " + padded(one.control.name(), width) + "  " + padded(name_of(one.outcome), 14) + "  " +
           printable(one.control.meaning + (one.shows.empty() ? "" : " (" + one.shows + ")")) + "\n";
  if (blame.controls.empty()) return out;
  if (blame.smallest.size() > 1 && blame.found) {
    out += "\nSmallest changes of the variant that make a difference:\n";
  } else if (blame.found) {
    out += "\nThe change of the variant that makes the difference:\n";
  } else if (!blame.changes.empty()) {
    out += "\nNo changes could be singled out; the variants differ in:\n";
  }
  for (const scenario::Change& change : blame.found ? blame.smallest : blame.changes)
    out += "  - " + printable(change.text()) + "\n";
  return out;
}

Json to_json(const std::vector<scenario::Change>& changes) {
  Json all = Json::array();
  for (const scenario::Change& change : changes)
    all.push_back({{"path", change.path()}, {"left", change.left}, {"right", change.right}});
  return all;
}

Json to_json(const blaming::Blame& blame) {
  Json result = report::to_json(blame.verdict, blame.plan);
  result["format"] = "lockstep.blame/1";
  result["controls"] = Json::array();
  for (const blaming::ControlResult& one : blame.controls)
    result["controls"].push_back({{"control", one.control.name()},
                                  {"meaning", one.control.meaning},
                                  {"outcome", name_of(one.outcome)},
                                  {"shows", one.shows}});
  result["changes"] = to_json(blame.changes);
  result["smallest_change"] = blame.found ? to_json(blame.smallest) : Json();
  return result;
}

std::vector<std::string> relations_of_blame() {
  std::vector<std::string> names;
  for (const scenario::CheckTraits& row : scenario::kCheckKinds) {
    if (row.wants_agreement()) names.emplace_back(row.name);
  }
  return names;
}

int blame(const BlameOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  make_way("--json", options.run.json(), {options.scenario});
  const std::vector<blaming::NamedControl> controls = blaming::chosen_controls(options.vary);
  const scenario::Scenario scenario = load_one(options.run, options.scenario);
  const blaming::Parties parties = parties_of(scenario, options);
  RunsFolder runs(options.run.out);
  const experiment::Execute execute = executor_again(options.run, runs.path());
  blaming::Blame blame = blaming::blame(scenario, parties, controls, options.run.golden_root, today(), execute,
                                        [](const std::string& text) { print_line(stderr, "lockstep: " + text); });
  blame.verdict.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const judge::Status status = blame.verdict.status();
  if (options.run.json() != kStandardOutput) {
    print_page(stdout, report::make_text_renderer(may_color(STDOUT_FILENO))->render(blame.verdict, blame.plan) +
                           to_text(blame));
  }
  if (status != judge::Status::kAgree) runs.keep();
  if (!options.run.json().empty()) write_json(options.run.json(), to_json(blame));
  return exit_code(status);
}

}  // namespace

void add_blame(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("blame", "Find by control runs why two variants, or a variant and its golden, differ");
  const auto options = std::make_shared<BlameOptions>();
  command->add_option("scenario", options->scenario, "Scenario file")->required()->check(not_empty);
  command->add_option("left", options->left, "Variant (default: the first of the scenario's two)")->check(not_empty);
  command->add_option("right", options->right, "Variant, or 'golden' (default: the second)")->check(not_empty);
  command
      ->add_option("--that", options->that, "Relation between them (default: equal; rounding if their shapes differ)")
      ->check(one_of(relations_of_blame()));
  command->add_option("--vary", options->vary, "Controls to try: threads,isa only these; -threads all but this one")
      ->check(not_empty);
  add_run_options(*command, options->run);
  add_json_option(*command, options->run.reports["json"]);
  run_when_chosen(*command, action, options, blame);
}

}  // namespace lockstep::app
