#include "harness/report/findings.h"

#include <algorithm>

#include "harness/base/text.h"
#include "harness/report/renderer.h"

namespace lockstep::report {
namespace {

using judge::CheckReport;
using judge::RunReport;
using judge::Status;

std::string summary_of(const CheckReport& check) {
  const auto& at = check.result.divergence;
  if (!at) return check.result.why;
  const std::string class_name(at->class_name());
  return (check.result.why.empty() ? "" : check.result.why + "; ") + (class_name.empty() ? "" : class_name + ", ") +
         "cause " + at->cause_id() + ", first at " + at->place_and_rank();
}

Finding finding_of(const CheckReport& check) {
  return {.name = name_of_check(check),
          .status = check.status,
          .expected_failure = check.expected_failure,
          .summary = summary_of(check),
          .details = check.status == Status::kAgree ? "" : to_text(check)};
}

Finding finding_of(const RunReport& run, const std::string& scenario) {
  return {.name = "run " + run.run.substr(scenario.size() + 1) + ": " + run.outcome,
          .status = run.status,
          .expected_failure = run.expected_failure,
          .summary = run.why,
          .details = run.status == Status::kAgree ? "" : to_text(run)};
}

ScenarioFindings of_scenario(const judge::Verdict& verdict, const scenario::Scenario& scenario) {
  ScenarioFindings of = {.scenario = scenario.name,
                         .file = scenario.file.string(),
                         .status = verdict.status_of(scenario.name),
                         .findings = {}};
  for (const RunReport& run : verdict.runs) {
    if (run.run.starts_with(scenario.name + "/")) of.findings.push_back(finding_of(run, scenario.name));
  }
  for (const CheckReport& check : verdict.checks) {
    if (check.scenario == scenario.name) of.findings.push_back(finding_of(check));
  }
  const bool is_shown = std::any_of(of.findings.begin(), of.findings.end(),
                                    [&](const Finding& finding) { return finding.status == of.status; });
  if (!is_shown) of.findings.push_back({.name = "verdict", .status = of.status, .summary = "nothing was judged"});
  return of;
}

}  // namespace

std::vector<ScenarioFindings> findings_of(const judge::Verdict& verdict, const plan::Plan& plan) {
  std::vector<ScenarioFindings> all;
  for (const scenario::Scenario& scenario : plan.scenarios) all.push_back(of_scenario(verdict, scenario));
  return all;
}

}  // namespace lockstep::report
