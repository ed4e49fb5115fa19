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
  return {.scenario = check.scenario,
          .name = name_of_check(check),
          .status = check.status,
          .expected_failure = check.expected_failure,
          .summary = summary_of(check),
          .details = check.status == Status::kAgree ? "" : to_text(check)};
}

Finding finding_of(const RunReport& run, const std::string& scenario) {
  return {.scenario = scenario,
          .name = "run " + run.run.substr(scenario.size() + 1) + ": " + run.outcome,
          .status = run.status,
          .expected_failure = run.expected_failure,
          .summary = run.why,
          .details = run.status == Status::kAgree ? "" : to_text(run)};
}

}  // namespace

std::vector<Finding> findings_of(const judge::Verdict& verdict, const plan::Plan& plan) {
  std::vector<Finding> all;
  for (const scenario::Scenario& scenario : plan.scenarios) {
    const std::size_t first = all.size();
    for (const RunReport& run : verdict.runs) {
      if (run.run.starts_with(scenario.name + "/")) all.push_back(finding_of(run, scenario.name));
    }
    for (const CheckReport& check : verdict.checks) {
      if (check.scenario == scenario.name) all.push_back(finding_of(check));
    }
    const Status status = verdict.status_of(scenario.name);
    const bool is_told = std::any_of(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
                                     [&](const Finding& finding) { return finding.status == status; });
    if (!is_told)
      all.push_back({.scenario = scenario.name, .name = "verdict", .status = status, .summary = "nothing was judged"});
    for (std::size_t i = first; i < all.size(); ++i) all[i].file = scenario.file.string();
  }
  return all;
}

}  // namespace lockstep::report
