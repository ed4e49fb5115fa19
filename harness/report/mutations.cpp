#include "harness/report/mutations.h"

#include <algorithm>
#include <map>

#include "harness/base/build_id.h"
#include "harness/base/text.h"
#include "harness/checks/check.h"

namespace lockstep::report {
namespace {

using Outcome = MutationRow::Outcome;

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRed:
      return "red";
    case Outcome::kGreen:
      return "green";
    case Outcome::kOpen:
      return "open";
  }
  return "open";
}

/// Of one scenario, by place in its list.
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

std::size_t count(const MutationTable& table, Outcome outcome) {
  std::size_t result = 0;
  for (const PracticeRow& practice : table.practices)
    result += static_cast<std::size_t>(std::count_if(practice.mutations.begin(), practice.mutations.end(),
                                                     [&](const MutationRow& row) { return row.outcome == outcome; }));
  return result;
}

}  // namespace

bool is_surely_red(const CheckReport& report, const scenario::Scenario& scenario, const scenario::CheckSpec& spec) {
  if (report.status != Status::kDivergence) return false;
  const auto& at = report.result.divergence;
  if (!at) return true;
  if (spec.expect && (spec.expect->cause || spec.expect->class_)) return false;  // control runs may name another
  const bool may_be_rounding =
      spec.traits().wanted == scenario::Wanted::kUpToRounding || checks::resumes_at_another_world_size(scenario, spec);
  return !may_be_rounding || at->is_no_rounding || !at->phase.empty() || !trace::info(at->channel).can_round();
}

Status MutationTable::status() const {
  if (unmutated != Status::kAgree) return unmutated;
  return count(*this, Outcome::kGreen) + count(*this, Outcome::kOpen) == 0 ? Status::kAgree : Status::kDivergence;
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

std::string to_text(const MutationTable& table) {
  std::string out;
  for (const PracticeRow& practice : table.practices) {
    out += printable(practice.scenario + ": " + practice.name) + "\n";
    out += "  proven by   " + printable(join(practice.proven_by, "; ")) + "\n";
    for (const MutationRow& row : practice.mutations) {
      const char* const label = row.outcome == Outcome::kRed     ? "red         "
                                : row.outcome == Outcome::kGreen ? "GREEN       "
                                                                 : "OPEN        ";
      out += "  " + std::string(label) + printable(row.name) + "\n";
      if (!row.red.empty()) out += "    by        " + printable(join(row.red, "; ")) + "\n";
      if (!row.why.empty()) out += "    because   " + printable(row.why) + "\n";
    }
  }
  const std::size_t red = count(table, Outcome::kRed), green = count(table, Outcome::kGreen),
                    open = count(table, Outcome::kOpen);
  const std::string part = table.part.of == 1 ? ""
                                              : "part " + std::to_string(table.part.number) + "/" +
                                                    std::to_string(table.part.of) + " of the mutations: ";
  out += part + std::to_string(red) + " of " + std::to_string(red + green + open) + " mutations red, " +
         std::to_string(green) + " green, " + std::to_string(open) +
         " open; the scenarios as they are: " + std::string(name_of(table.unmutated)) + "\n";
  return out;
}

Json to_json(const MutationTable& table) {
  Json practices = Json::array();
  for (const PracticeRow& practice : table.practices) {
    Json mutations = Json::array();
    for (const MutationRow& row : practice.mutations)
      mutations.push_back({{"name", row.name},
                           {"outcome", outcome_name(row.outcome)},
                           {"red", row.red},
                           {"why", row.why.empty() ? Json() : Json(row.why)}});
    practices.push_back({{"scenario", practice.scenario},
                         {"file", practice.file},
                         {"practice", practice.name},
                         {"proven_by", practice.proven_by},
                         {"mutations", mutations}});
  }
  return {{"format", "lockstep.mutations/1"},      {"build", build_id()},
          {"status", name_of(table.status())},     {"exit_code", exit_code(table.status())},
          {"unmutated", name_of(table.unmutated)}, {"practices", practices}};
}

}  // namespace lockstep::report
