#include "harness/judge/mutation_table.h"

#include <algorithm>
#include <map>

#include "harness/base/text.h"
#include "harness/checks/check.h"

namespace lockstep::judge {
namespace {

using Outcome = MutationRow::Outcome;

/// One scenario's mutations, by place in its list.
std::map<std::size_t, const CheckReport*> reports_of(const std::string& scenario, const Verdict& verdict) {
  std::map<std::size_t, const CheckReport*> reports;
  for (const CheckReport& report : verdict.checks) {
    if (report.scenario == scenario) reports[report.index] = &report;
  }
  return reports;
}

/// A run of the trial that did not end as it should; nothing where all did.
const RunReport* failed_run(const std::string& scenario, const plan::Trial& trial, const Verdict& verdict) {
  for (const RunReport& run : verdict.runs) {
    if (run.status == Status::kAgree) continue;
    for (const std::string& variant : trial.variants) {
      if (run.run.starts_with(scenario + "/" + variant + "/")) return &run;
    }
  }
  return nullptr;
}

MutationRow row_of(const plan::Mutated& mutated, const plan::Trial& trial, const Verdict& verdict) {
  const scenario::Scenario& scenario = mutated.scenario;
  MutationRow row{.name = scenario.practices[trial.practice].mutations[trial.mutation].name};
  if (const RunReport* run = failed_run(scenario.name, trial, verdict); run != nullptr) {
    row.why = "the run " + run->run + " " + run->outcome + (run->why.empty() ? "" : ": " + run->why);
    return row;
  }
  const std::map<std::size_t, const CheckReport*> reports = reports_of(scenario.name, verdict);
  bool all_hold = true;
  for (const std::size_t index : trial.checks) {
    const CheckReport& report = *reports.at(index);
    if (report.status == Status::kDivergence) row.red.push_back(scenario.checks[index].name);
    if (report.status == Status::kAgree) continue;
    all_hold = false;
    if (row.why.empty()) row.why = scenario.checks[index].name + ": " + report.result.why;
  }
  row.outcome = !row.red.empty() ? Outcome::kRed : all_hold ? Outcome::kGreen : Outcome::kOpen;
  if (row.outcome != Outcome::kOpen) row.why.clear();
  return row;
}

}  // namespace

bool is_surely_red(const CheckReport& report, const scenario::Scenario& scenario, const scenario::CheckSpec& spec) {
  if (report.status != Status::kDivergence) return false;
  const auto& at = report.result.divergence;
  if (!at) return true;
  if (spec.expect && (spec.expect->cause || spec.expect->class_)) return false;  // control runs may name another
  const bool may_be_rounding =
      spec.traits().wanted == scenario::Wanted::kUpToRounding || checks::resumes_at_another_world_size(scenario, spec);
  return !may_be_rounding || report.result.is_no_rounding || !at->phase.empty() ||
         !trace::info(at->channel).can_round();
}

std::size_t MutationTable::count(Outcome outcome) const {
  std::size_t result = 0;
  for (const PracticeRow& practice : practices)
    result += static_cast<std::size_t>(std::count_if(practice.mutations.begin(), practice.mutations.end(),
                                                     [&](const MutationRow& row) { return row.outcome == outcome; }));
  return result;
}

Status MutationTable::status() const {
  if (unmutated != Status::kAgree) return unmutated;
  return count(Outcome::kGreen) + count(Outcome::kOpen) == 0 ? Status::kAgree : Status::kDivergence;
}

MutationTable mutation_table(const std::vector<plan::Mutated>& scenarios, const Verdict& trials,
                             const Verdict& unmutated) {
  MutationTable table{.unmutated = unmutated.status()};
  for (const plan::Mutated& mutated : scenarios) {
    const scenario::Scenario& scenario = mutated.scenario;
    for (std::size_t i = 0; i < scenario.practices.size(); ++i) {
      PracticeRow row{.scenario = scenario.name, .file = scenario.file.string(), .name = scenario.practices[i].name};
      for (const std::size_t check : scenario.practices[i].proven_by)
        row.proven_by.push_back(mutated.check_names[check]);
      for (const plan::Trial& trial : mutated.trials) {
        if (trial.practice == i) row.mutations.push_back(row_of(mutated, trial, trials));
      }
      if (!row.mutations.empty()) table.practices.push_back(std::move(row));
    }
  }
  return table;
}

}  // namespace lockstep::judge
