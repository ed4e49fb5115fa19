#pragma once

#include <string>
#include <vector>

#include "harness/judge/verdict.h"
#include "harness/plan/plan.h"

namespace lockstep::report {

/// One line of a report that lists what was judged: a check, a run that did not end well, or a scenario of which
/// nothing was judged.
struct Finding {
  std::string name;  ///< "checks.0 equal (a, b)", "run a/0"
  judge::Status status = judge::Status::kAgree;
  std::string expected_failure;  ///< reason, where the author expects it to fail
  std::string summary;           ///< one line; empty where it simply agrees
  std::string details;           ///< lines of the text report; empty where it agrees

  bool fails_as_expected() const { return status == judge::Status::kAgree && !expected_failure.empty(); }
};

/// All findings of one scenario.
struct ScenarioFindings {
  std::string scenario;
  std::string file;  ///< of the scenario
  judge::Status status = judge::Status::kAgree;
  std::vector<Finding> findings;  ///< one at least; each has a name of its own
};

/// In the order of the plan's scenarios.
std::vector<ScenarioFindings> findings_of(const judge::Verdict& verdict, const plan::Plan& plan);

}  // namespace lockstep::report
