// lockstep golden accept: a run, or proposals of runs, become goldens.
#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "harness/app/acceptance.h"
#include "harness/app/golden_command.h"
#include "harness/app/pipeline.h"
#include "harness/app/proposals_chosen.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/golden/processors.h"
#include "harness/golden/root.h"
#include "harness/report/renderer.h"

namespace lockstep::app {
namespace {

struct AcceptOptions {
  RunOptions run;
  std::vector<std::string> what;            ///< scenario files and folders, or patterns of proposals
  std::vector<std::filesystem::path> from;  ///< folders of proposals; empty: pending/
  std::string reason;
  std::vector<std::string> variants;  ///< empty: all that a golden check names
  bool in_ci = false;                 ///< accepts although this is a CI job
  bool dirty = false;                 ///< accepts although sources are not committed
  bool dry_run = false;               ///< writes nothing
  bool exact = false;                 ///< for the model of processor alone, not for its class
  bool of_class = false;              ///< for the class, though there is an entry for the model
  std::filesystem::path json;
};

constexpr std::int64_t kLeastRepeats = 2;

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

void require_no_obstacles(const scenario::Scenario& scenario, const std::string& variant) {
  const std::vector<std::string> obstacles = obstacles_of(scenario, variant);
  if (obstacles.empty()) return;
  throw InputError({.what = "this training cannot become a golden: " + join(obstacles, "; "),
                    .where = scenario.file.string() + " (variant '" + variant + "')",
                    .expected = "a recipe that the file holds, without faults in it or in variants that it loads from",
                    .next = "write overrides into the file first; plant faults in variants without a golden check"});
}

/// The key that the options ask for in the place of the one that accepting finds by itself.
std::string chosen_key(const AcceptOptions& options, const std::string& key, const Json& environment,
                       const std::string& origin) {
  const std::string all = golden::class_of(key);
  return options.exact ? golden::key_of_model(all, environment, origin) : options.of_class ? all : key;
}

/// What has been accepted, a line for each, and --json.
class Report {
 public:
  explicit Report(const AcceptOptions& options) : options_(options) {}

  void add(const golden::Outcome& outcome, const std::filesystem::path& file, const golden::Name& name,
           const std::string& key) {
    const std::string what = outcome.what == golden::Accepted::kNew       ? "new"
                             : outcome.what == golden::Accepted::kChanged ? "changed"
                                                                          : "unchanged";
    rows_.push_back({{"golden", name.scenario + "/" + name.variant},
                     {"key", key},
                     {"file", file.string()},
                     {"what", what},
                     {"moved", outcome.moved}});
    const bool dry = options_.dry_run;
    if (options_.json != kStandardOutput)
      print_line(stdout, padded((dry ? "would be " : "") + what, dry ? 18 : 9) + "  " + file.string() + " (" + key +
                             ")" + (outcome.moved.empty() ? "" : "  " + outcome.moved));
  }

  void write() const {
    if (!options_.json.empty())
      write_json(options_.json, {{"format", "lockstep.accepted/1"}, {"dry_run", options_.dry_run}, {"goldens", rows_}});
  }

 private:
  const AcceptOptions& options_;
  Json rows_ = Json::array();
};

/// Scenarios with something to accept, checked before anything runs.
std::vector<scenario::Scenario> scenarios_to_accept(const AcceptOptions& options) {
  std::vector<scenario::Scenario> scenarios;
  std::size_t goldens = 0;
  for (scenario::Scenario& scenario : load(options.run)) {
    const std::set<std::string> accepted = chosen(scenario, options.variants);
    for (const std::string& variant : accepted) require_no_obstacles(scenario, variant);
    if (!accepted.empty() && !options.dry_run)
      require_clean(scenario, golden::root_of(scenario.file, options.run.golden_root).folder, options.dirty);
    goldens += accepted.size();
    scenarios.push_back(std::move(scenario));
  }
  if (goldens == 0)
    throw InputError({.what = "nothing is selected: no scenario has a golden check",
                      .next = "add {\"that\": \"golden\"} to its checks"});
  return scenarios;
}

/// Runs scenarios, and accepts what their golden checks name.
int accept_runs(const AcceptOptions& options) {
  const std::vector<scenario::Scenario> scenarios = scenarios_to_accept(options);
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
    Report(options).write();
    runs.keep();
    return exit_code(verdict.status());
  }
  Report report(options);
  for (const scenario::Scenario& scenario : scenarios) {
    const std::filesystem::path root = golden::root_of(scenario.file, options.run.golden_root).folder;
    const std::set<std::string> accepted = chosen(scenario, options.variants);
    const golden::Acceptance now =
        accepted.empty() ? golden::Acceptance() : acceptance_now(scenario, root, options.reason);
    for (const std::string& variant : accepted) {
      golden::Acceptable fresh = acceptable(plan, evidence, scenario, variant, root);
      golden::require_proof(fresh.repeats);
      const auto& rank = fresh.repeats[0].ranks.at(0);
      fresh.key = chosen_key(options, fresh.key, rank.header.value("environment", Json::object()), rank.origin);
      fresh.acceptance = now;
      const std::filesystem::path file = golden::golden_file(root, scenario.name, variant);
      const golden::Entry entry = golden::entry_of(fresh);
      const golden::Outcome outcome =
          options.dry_run ? golden::preview(file, fresh.name, entry) : golden::accept(file, fresh.name, entry);
      if (!options.dry_run) golden::withdraw(golden::pending_folder(root), fresh.name, fresh.key);
      report.add(outcome, file, fresh.name, fresh.key);
    }
  }
  report.write();
  return 0;
}

/// *Throws*: InputError where two proposals of one key differ: the second would replace the first.
void require_one_each(const std::vector<golden::Proposal>& proposals) {
  std::map<std::string, const golden::Proposal*> seen;
  for (const golden::Proposal& proposal : proposals) {
    const golden::Proposal& first = *seen.try_emplace(proposal.text(), &proposal).first->second;
    if (golden::is_same_training(first.entry, proposal.entry)) continue;
    throw InputError({.what = "two proposals of one golden have different bits: " + proposal.text(),
                      .where = first.origin.string() + ", " + proposal.origin.string(),
                      .expected = "one proposal for each key, or equal ones",
                      .next = "add --exact if their processors are different models; else accept one of them"});
  }
}

/// Accepts proposals that match, of these folders. All are looked at before one is accepted.
int accept_proposals(const AcceptOptions& options) {
  const std::filesystem::path root = root_of_proposals(options.run.golden_root);
  std::vector<golden::Proposal> proposals = proposals_chosen(options.what, options.from, options.run.golden_root);
  for (golden::Proposal& proposal : proposals)
    proposal.entry.key = chosen_key(options, proposal.entry.key, proposal.entry.environment, proposal.origin.string());
  require_one_each(proposals);
  Problems problems;
  for (const golden::Proposal& proposal : proposals) {
    problems.collect([&] { golden::require_no_obstacles(proposal); });
    problems.collect([&] { require_committed(proposal, options.dirty || options.dry_run); });
  }
  problems.throw_if_any();
  Report report(options);
  for (const golden::Proposal& proposal : proposals) {
    const std::filesystem::path file = golden::golden_file(root, proposal.name.scenario, proposal.name.variant);
    const golden::Outcome outcome = options.dry_run ? golden::preview(file, proposal.name, proposal.entry)
                                                    : accept_proposal(proposal, options.reason, root);
    report.add(outcome, file, proposal.name, proposal.entry.key);
  }
  report.write();
  return 0;
}

int accept(const AcceptOptions& given) {
  AcceptOptions options = given;
  if (!options.dry_run) require_somebody_decides(options.in_ci);
  make_way("--json", options.json, {options.what.begin(), options.what.end()});
  const bool are_paths = options.from.empty() && std::all_of(options.what.begin(), options.what.end(),
                                                             [](const std::string& what) { return is_there(what); });
  if (!are_paths) return accept_proposals(options);
  options.run.scenarios.assign(options.what.begin(), options.what.end());
  return accept_runs(options);
}

}  // namespace

void add_golden_accept(CLI::App& golden, Action& action) {
  CLI::App* command = golden.add_subcommand(
      "accept",
      "Run scenarios and accept the traces of their golden checks, if every other check holds and repeats are "
      "identical; or accept what runs proposed");
  const auto options = std::make_shared<AcceptOptions>();
  command->add_option("what", options->what, "Scenario files, or folders of them; or proposals: 'world-size/*'")
      ->required();
  command->add_option("--reason", options->reason, "Why the golden changes; stored in it")
      ->required()
      ->check(not_empty);
  command->add_option("--variant", options->variants, "Accept these variants only")->allow_extra_args(false);
  command->add_option("--from", options->from, "Folder of proposals, as a CI job left them; as often as given")
      ->type_name("FOLDER")
      ->check(not_empty)
      ->allow_extra_args(false);
  command->add_flag("--in-ci", options->in_ci, "Accept even if the environment variable CI is set");
  command->add_flag("--dirty", options->dirty, "Accept even if sources are not committed");
  command->add_flag("--dry-run", options->dry_run, "Write nothing; say what would change");
  CLI::Option* exact = command->add_flag(
      "--exact", options->exact, "Accept for this model of processor alone: an entry beside the one of its class");
  command
      ->add_flag("--class", options->of_class,
                 "Accept for the class of processors, even if there is an entry for this model")
      ->excludes(exact);
  add_run_options(*command, options->run);
  add_json_option(*command, options->json);
  run_when_chosen(*command, action, options, accept);
}

}  // namespace lockstep::app
