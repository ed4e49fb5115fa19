#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/job.h"
#include "harness/plan/plan.h"
#include "harness/report/verdict.h"
#include "harness/trace/trace.h"

namespace lockstep::report {

/// Outcome and trace of one run. Lists are in the order of the plan's runs.
struct Evidence {
  launch::RunOutcome outcome;
  std::optional<trace::RunTrace> trace;
  std::string problem;  ///< why there is no trace that counts
};

/// Reads the traces of finished runs. A missing, torn or damaged trace of a finished run is a problem, never a pass.
std::vector<Evidence> read_evidence(const plan::Plan& plan, std::vector<launch::RunOutcome> outcomes,
                                    const std::filesystem::path& runs_root);

/// Completes the recipes of programs with what their recorders saw (scenario/seen.h), for diagnosis.
void take_seen(plan::Plan& plan, const std::vector<Evidence>& evidence);

/// The same for one recorded run.
void take_seen(scenario::Promises& promises, const trace::RunTrace& run);

/// Judges every check of the plan. *Units*: `today` as "2027-01-31", for expectations that end.
Verdict judge(const plan::Plan& plan, const std::vector<Evidence>& evidence, const std::filesystem::path& golden_root,
              const std::string& today);

/// Whether a divergence is where the author expects it, as far as that is said.
bool is_at(const scenario::Expectation& expect, const compare::Divergence& at);

/// Names the causes of a check's divergence anew, after something more is known of its class.
void diagnose_again(CheckReport& report, const plan::Plan& plan, const std::vector<Evidence>& evidence,
                    const plan::Check& check);

/// Sets a check's status from its result and from what the author expects of it.
void settle(CheckReport& report, const scenario::CheckSpec& spec, const std::string& today);

}  // namespace lockstep::report
