#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/golden/root.h"
#include "harness/golden/store.h"
#include "harness/report/renderer.h"

namespace lockstep::app {
namespace {

struct AcceptOptions {
  RunOptions run;
  std::string reason;
  std::vector<std::string> variants;  ///< empty: all that a golden check names
  bool in_ci = false;                 ///< accepts although this is a CI job
};

constexpr std::int64_t kLeastRepeats = 2;

/// Variants that some golden check names.
std::set<std::string> variants_with_goldens(const scenario::Scenario& scenario) {
  std::set<std::string> names;
  for (const scenario::CheckSpec& check : scenario.checks) {
    if (check.traits().sides == scenario::Sides::kGolden) names.insert(check.variants.begin(), check.variants.end());
  }
  return names;
}

/// The variants to accept in one scenario. *Throws*: InputError for a name that no golden check has.
std::set<std::string> chosen(const scenario::Scenario& scenario, const std::vector<std::string>& wanted) {
  const std::set<std::string> all = variants_with_goldens(scenario);
  if (wanted.empty()) return all;
  for (const std::string& name : wanted) {
    if (all.contains(name)) continue;
    const std::vector<std::string> names(all.begin(), all.end());
    throw InputError({.what = "no golden check names this variant",
                      .where = scenario.file.string(),
                      .expected = "one of: " + join(names, ", "),
                      .actual = "'" + name + "'",
                      .next = suggest(name, names)});
  }
  return {wanted.begin(), wanted.end()};
}

/// The scenario as it is judged before its goldens change: repeated, and without the checks that are about to.
scenario::Scenario for_acceptance(scenario::Scenario scenario) {
  scenario.repeats = std::max(scenario.repeats, kLeastRepeats);
  std::erase_if(scenario.checks,
                [](const scenario::CheckSpec& check) { return check.traits().sides == scenario::Sides::kGolden; });
  return scenario;
}

/// A golden is of a training as it should be: nothing planted, and nothing planted in what it loads.
void require_no_faults(const scenario::Scenario& scenario, const std::string& accepted) {
  std::vector<std::string> open = {accepted};
  while (!open.empty()) {
    const scenario::Variant& variant = scenario.variant(open.back());
    open.pop_back();
    if (!variant.train.faults.empty())
      throw InputError({.what = "a training with planted faults cannot become a golden",
                        .where = scenario.file.string() + " (variant '" + variant.name + "'): train.faults",
                        .expected = "no faults in '" + accepted + "', nor in variants that it loads from",
                        .actual = variant.train.faults[0].kind,
                        .next = "plant faults in variants without a golden check"});
    for (const std::string& source : scenario::sources_of(variant)) open.push_back(source);
  }
}

std::vector<trace::RunTrace> repeats_of(const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
                                        const std::string& scenario, const std::string& variant) {
  std::vector<trace::RunTrace> repeats;
  for (const std::size_t index : plan.runs_of(scenario, variant)) {
    if (evidence[index].trace) repeats.push_back(*evidence[index].trace);
  }
  return repeats;
}

/// A job of CI that accepts what it is to judge would make every change green.
void require_somebody_decides(const AcceptOptions& options) {
  const char* ci = std::getenv("CI");
  const std::string value = ci == nullptr ? "" : ci;
  if (options.in_ci || value.empty() || value == "0" || value == "false") return;
  throw InputError({.what = "a CI job cannot accept goldens: a job that accepts its own goldens is always green",
                    .where = "the environment variable CI",
                    .expected = "not set, empty, 0 or false",
                    .actual = printable(value),
                    .next = "accept it where you review it, or add --in-ci"});
}

/// Channels that golden checks compare of a variant, of those that it records.
std::set<trace::Channel> compared_channels(const scenario::Scenario& scenario, const std::string& variant) {
  std::set<trace::Channel> channels;
  for (const scenario::CheckSpec& check : scenario.checks) {
    const bool names_it = std::find(check.variants.begin(), check.variants.end(), variant) != check.variants.end();
    if (check.traits().sides != scenario::Sides::kGolden || !names_it) continue;
    const std::vector<trace::Channel> named = check.channels.empty() ? trace::all_channels() : check.channels;
    channels.insert(named.begin(), named.end());
  }
  const recipe::RecordSpec& record = scenario.variant(variant).train.record;
  std::erase_if(channels, [&](trace::Channel channel) { return !record.holds(channel); });
  return channels;
}

const char* name_of(golden::Accepted what) {
  switch (what) {
    case golden::Accepted::kNew:
      return "new";
    case golden::Accepted::kChanged:
      return "changed";
    case golden::Accepted::kUnchanged:
      return "unchanged";
  }
  return "";
}

int accept(const AcceptOptions& options) {
  require_somebody_decides(options);
  std::vector<scenario::Scenario> scenarios;
  std::size_t goldens = 0;
  for (scenario::Scenario& scenario : load(options.run)) {
    const std::set<std::string> accepted = chosen(scenario, options.variants);
    for (const std::string& variant : accepted) require_no_faults(scenario, variant);
    goldens += accepted.size();
    scenarios.push_back(std::move(scenario));
  }
  if (goldens == 0)
    throw InputError({.what = "nothing is selected: no scenario has a golden check",
                      .next = "add {\"that\": \"golden\"} to its checks"});
  std::vector<scenario::Scenario> judged;
  for (const scenario::Scenario& scenario : scenarios) judged.push_back(for_acceptance(scenario));

  plan::Plan plan = plan::make_plan(judged);
  RunsFolder runs(options.run.out);
  const std::vector<judge::Evidence> evidence = execute(plan, options.run, runs.path());
  const judge::Verdict verdict = judge::judge(plan, evidence, options.run.golden_root, today());
  // A golden check alone leaves nothing else to judge; runs that failed show in the verdict all the same.
  const bool nothing_else = plan.checks.empty() && verdict.runs.empty();
  if (verdict.status() != judge::Status::kAgree && !nothing_else) {
    print_page(stdout, report::make_text_renderer(may_color(STDOUT_FILENO))->render(verdict, plan));
    print_line(stderr, "lockstep: no golden was changed: other checks fail");
    runs.keep();
    return exit_code(verdict.status());
  }
  for (const scenario::Scenario& scenario : scenarios) {
    for (const std::string& variant : chosen(scenario, options.variants)) {
      const std::vector<trace::RunTrace> repeats = repeats_of(plan, evidence, scenario.name, variant);
      if (repeats.empty())
        throw InternalError({.what = "a finished run has no trace", .where = scenario.name + "/" + variant});
      const auto file =
          golden::golden_file(golden::root_of(scenario.file, options.run.golden_root).folder, scenario.name, variant);
      const golden::Accepted what = golden::accept(file, {.scenario = scenario.name,
                                                          .variant = variant,
                                                          .key = golden::key_of(repeats.front()),
                                                          .recipe = scenario.variant(variant).recipe_json(),
                                                          .channels = compared_channels(scenario, variant),
                                                          .repeats = repeats,
                                                          .acceptance = {.date = today(), .reason = options.reason}});
      print_line(stdout, padded(name_of(what), 9) + "  " + file.string());
    }
  }
  return 0;
}

struct MigrateOptions {
  std::filesystem::path root = "golden";
};

int migrate(const MigrateOptions& options) {
  const std::vector<std::filesystem::path> files = golden::migrate(options.root);
  for (const std::filesystem::path& file : files) print_line(stdout, "written    " + file.string());
  if (files.empty()) print_line(stdout, "nothing to migrate in " + options.root.string());
  return 0;
}

}  // namespace

void add_golden(CLI::App& app, Action& action) {
  CLI::App* golden = app.add_subcommand("golden", "Accepted traces");
  golden->require_subcommand(1);
  CLI::App* command = golden->add_subcommand("accept",
                                             "Run scenarios and accept the traces of their golden checks, if every "
                                             "other check holds and repeats are identical");
  const auto options = std::make_shared<AcceptOptions>();
  command->add_option("scenarios", options->run.scenarios, "Scenario files, or folders of them")->required();
  command->add_option("--reason", options->reason, "Why the golden changes; stored in it")
      ->required()
      ->check(not_empty);
  command->add_option("--variant", options->variants, "Accept these variants only")->allow_extra_args(false);
  command->add_flag("--in-ci", options->in_ci, "Accept even if the environment variable CI is set");
  add_run_options(*command, options->run);
  run_when_chosen(*command, action, options, accept);

  CLI::App* migrating = golden->add_subcommand("migrate", "Rewrite goldens of the format of older versions");
  const auto old = std::make_shared<MigrateOptions>();
  migrating->add_option("folder", old->root, "Folder of the goldens. Default: golden")->check(not_empty);
  run_when_chosen(*migrating, action, old, migrate);
}

}  // namespace lockstep::app
