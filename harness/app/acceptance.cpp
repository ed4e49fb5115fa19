#include "harness/app/acceptance.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "harness/app/work_tree.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/golden/processors.h"
#include "harness/golden/root.h"

namespace lockstep::app {
namespace {

bool is_of_goldens(const scenario::CheckSpec& check) { return check.traits().sides == scenario::Sides::kGolden; }

/// Whether a check has goldens of its variants' own.
bool accepts(const scenario::CheckSpec& check) { return is_of_goldens(check) && check.of.empty(); }

/// Channels that golden checks compare of a variant, of those that it records.
std::set<trace::Channel> compared_channels(const scenario::Scenario& scenario, const std::string& variant) {
  std::set<trace::Channel> channels;
  for (const scenario::CheckSpec& check : scenario.checks) {
    const bool names_it = std::find(check.variants.begin(), check.variants.end(), variant) != check.variants.end();
    if (!accepts(check) || !names_it) continue;
    const std::vector<trace::Channel> named = check.channels.empty() ? trace::all_channels() : check.channels;
    channels.insert(named.begin(), named.end());
  }
  const recipe::RecordSpec& record = scenario.variant(variant).train.record;
  std::erase_if(channels, [&](trace::Channel channel) { return !record.holds(channel); });
  return channels;
}

/// Golden checks of a variant that do not agree, the first one; null: all do.
const judge::CheckReport* golden_that_differs(const judge::Verdict& verdict, const std::string& scenario,
                                              const std::string& variant, const scenario::Scenario& of) {
  for (const judge::CheckReport& check : verdict.checks) {
    const bool names_it = std::find(check.variants.begin(), check.variants.end(), variant) != check.variants.end();
    if (check.scenario == scenario && names_it && accepts(of.checks.at(check.index)) &&
        check.status != judge::Status::kAgree)
      return &check;
  }
  return nullptr;
}

/// Checks and runs of a scenario that are not well, beside its golden checks.
std::vector<std::string> failures_beside(const judge::Verdict& verdict, const scenario::Scenario& scenario) {
  std::vector<std::string> failures;
  for (const judge::CheckReport& check : verdict.checks) {
    if (check.scenario == scenario.name && !is_of_goldens(scenario.checks.at(check.index)) &&
        check.status != judge::Status::kAgree)
      failures.push_back("checks." + std::to_string(check.index) + " " + std::string(name_of(check.that)) + " is " +
                         std::string(name_of(check.status)));
  }
  for (const judge::RunReport& run : verdict.runs) {
    if (run.run.starts_with(scenario.name + "/") && run.status != judge::Status::kAgree)
      failures.push_back("the run " + run.run + " " + run.outcome);
  }
  return failures;
}

/// What the check says of a variant. Of several variants, it says why for those that have a divergence.
std::string cause_of(const judge::CheckReport& check, const std::string& variant) {
  std::vector<checks::CheckResult> results = check.result.others;
  results.insert(results.begin(), check.result);
  for (const checks::CheckResult& result : results) {
    const auto& divergence = result.divergence;
    if (!divergence || !divergence->right.name().starts_with(variant + "/")) continue;
    return divergence->cause_id() +
           (divergence->suspects.empty() ? "" : ": " + join(divergence->suspects[0].evidence, "; "));
  }
  return check.variants.size() == 1 ? check.result.why : "";
}

/// Proposes one variant, unless its golden has its bits: other variants of the check differ then. Whether it did.
bool propose_one(const std::filesystem::path& folder, const std::filesystem::path& root,
                 const golden::Acceptable& fresh, golden::Proposal proposal) {
  try {
    golden::require_proof(fresh.repeats);
  } catch (const InputError& error) {
    proposal.obstacles.push_back(error.problem().what);
  }
  proposal.entry = golden::entry_of(fresh);
  try {
    const golden::Outcome outcome =
        golden::preview(golden::golden_file(root, fresh.name.scenario, fresh.name.variant), fresh.name, proposal.entry);
    if (outcome.what == golden::Accepted::kUnchanged) {
      golden::withdraw(folder, fresh.name, fresh.key);
      return false;
    }
    proposal.moved = outcome.moved;
  } catch (const Error& error) {
    proposal.obstacles.push_back(error.problem().what);
  }
  golden::write_proposal(folder, proposal);
  return true;
}

}  // namespace

std::set<std::string> variants_with_goldens(const scenario::Scenario& scenario) {
  std::set<std::string> names;
  for (const scenario::CheckSpec& check : scenario.checks) {
    if (accepts(check)) names.insert(check.variants.begin(), check.variants.end());
  }
  return names;
}

std::vector<std::string> obstacles_of(const scenario::Scenario& scenario, const std::string& variant) {
  std::vector<std::string> obstacles;
  for (const std::string& text : scenario::overrides_of_recipe(scenario))
    obstacles.push_back("no file holds --set " + text);
  if (golden::pending_folder("") == scenario.name)
    obstacles.push_back("version control ignores the folder '" + scenario.name + "', which holds proposals");
  std::vector<std::string> open = {variant};
  while (!open.empty()) {
    const scenario::Variant& one = scenario.variant(open.back());
    open.pop_back();
    if (!one.train.faults.empty())
      obstacles.push_back("train.faults of the variant '" + one.name + "' plants " + one.train.faults[0].kind);
    for (const std::string& source : scenario::sources_of(one)) open.push_back(source);
  }
  return obstacles;
}

golden::Acceptable acceptable(const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
                              const scenario::Scenario& scenario, const std::string& variant,
                              const std::filesystem::path& root) {
  golden::Acceptable fresh{.name = {scenario.name, variant},
                           .recipe = scenario.variant(variant).recipe_json(),
                           .channels = compared_channels(scenario, variant)};
  for (const std::size_t index : plan.runs_of(scenario.name, variant)) {
    if (evidence[index].trace) fresh.repeats.push_back(*evidence[index].trace);
  }
  if (!fresh.repeats.empty())
    fresh.key = golden::key_to_accept(golden::golden_file(root, scenario.name, variant),
                                      golden::keys_of(fresh.repeats.front()));
  return fresh;
}

golden::Acceptance acceptance_now(const scenario::Scenario& scenario, const std::filesystem::path& root,
                                  const std::string& reason) {
  const WorkTree tree = work_tree_of(scenario.file, root);
  return {.date = today(),
          .by = tree.by,
          .commit = tree.commit + (tree.changes.empty() ? "" : " with changes"),
          .reason = reason};
}

bool is_ci() {
  const char* ci = std::getenv("CI");
  const std::string value = ci == nullptr ? "" : ci;
  return !value.empty() && value != "0" && value != "false";
}

void require_somebody_decides(bool in_ci) {
  if (in_ci || !is_ci()) return;
  throw InputError({.what = "a CI job cannot accept goldens: a job that accepts its own goldens is always green",
                    .where = "the environment variable CI",
                    .expected = "not set, empty, 0 or false",
                    .actual = printable(std::getenv("CI")),
                    .next = "accept it where you review it, or add --in-ci"});
}

void require_clean(const scenario::Scenario& scenario, const std::filesystem::path& root, bool dirty) {
  const std::vector<std::string> changes = work_tree_of(scenario.file, root).changes;
  if (dirty || changes.empty()) return;
  throw InputError({.what = "a golden needs sources that are committed: its commit says how to make it again",
                    .where = scenario.file.string(),
                    .expected = "no changes since the last commit, but in goldens",
                    .actual = "changed: " + some_of(changes, 5),
                    .next = "commit them first, or add --dirty: the golden then says 'with changes'"});
}

namespace {

/// Keys that the processors of a variant's first whole trace may have; none where no run left one.
std::vector<std::string> keys_of_runs(const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
                                      const std::string& scenario, const std::string& variant) {
  for (const std::size_t index : plan.runs_of(scenario, variant)) {
    if (evidence[index].trace) return golden::keys_of(*evidence[index].trace);
  }
  return {};
}

/// Proposes variants of one scenario, and withdraws those that agree. Returns the number of proposals.
std::size_t propose_of(const scenario::Scenario& scenario, const RunOptions& options, const plan::Plan& plan,
                       const std::vector<judge::Evidence>& evidence, const judge::Verdict& verdict) {
  const std::filesystem::path root = golden::root_of(scenario.file, options.golden_root).folder;
  const std::filesystem::path folder = options.proposals.empty() ? golden::pending_folder(root) : options.proposals;
  std::optional<golden::Acceptance> now;  // once: git is asked for it
  std::size_t written = 0;
  for (const std::string& variant : variants_with_goldens(scenario)) {
    const std::vector<std::string> keys = keys_of_runs(plan, evidence, scenario.name, variant);
    if (keys.empty()) continue;
    const judge::CheckReport* const differs = golden_that_differs(verdict, scenario.name, variant, scenario);
    if (differs == nullptr) {
      for (const std::string& key : keys) golden::withdraw(folder, {scenario.name, variant}, key);
      continue;
    }
    if (!now) now = acceptance_now(scenario, root, "");
    golden::Acceptable fresh = acceptable(plan, evidence, scenario, variant, root);
    fresh.acceptance = *now;
    golden::Proposal proposal{.name = fresh.name,
                              .scenario_file = scenario.file.string(),
                              .golden_root = root.string(),
                              .verdict = std::string(name_of(differs->status)),
                              .cause = cause_of(*differs, variant),
                              .obstacles = obstacles_of(scenario, variant)};
    const std::vector<std::string> failures = failures_beside(verdict, scenario);
    proposal.obstacles.insert(proposal.obstacles.end(), failures.begin(), failures.end());
    written += propose_one(folder, root, fresh, std::move(proposal)) ? 1 : 0;
  }
  return written;
}

}  // namespace

void propose(const RunOptions& options, const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
             const judge::Verdict& verdict) {
  if (is_ci() && options.proposals.empty()) return;
  std::size_t written = 0;
  try {
    for (const scenario::Scenario& scenario : plan.scenarios)
      written += propose_of(scenario, options, plan, evidence, verdict);
  } catch (const Error& error) {
    print_page(stderr, std::string("lockstep: goldens are not proposed: ") + error.what() + "\n");
  }
  if (written > 0)
    print_line(stderr, "lockstep: " + std::to_string(written) +
                           (written > 1 ? " goldens are proposed" : " golden is proposed") +
                           ": lockstep golden review");
}

}  // namespace lockstep::app
