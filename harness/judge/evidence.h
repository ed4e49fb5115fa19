#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/launch/job.h"
#include "harness/plan/plan.h"
#include "harness/trace/trace.h"

namespace lockstep::judge {

/// Outcome and trace of one run. Lists are in the order of the plan's runs.
struct Evidence {
  launch::RunOutcome outcome;
  std::optional<trace::RunTrace> trace;
  std::string problem;  ///< why there is no trace that counts
  std::string next;     ///< what to do about the problem; empty: nothing that we know
  std::string
      doubt;  ///< why the trace may be of another recipe, although it is whole; judged only where we started none
};

/// Reads the traces of finished runs. A missing, torn or damaged trace of a finished run is a problem, never a pass.
/// Completes the recipes of the plan's programs with what their recorders saw (scenario/seen.h), for diagnosis; lets
/// those that take checkpoints go on from the update where one was saved (compare/continuation.h).
std::vector<Evidence> read_evidence(plan::Plan& plan, std::vector<launch::RunOutcome> outcomes,
                                    const std::filesystem::path& runs_root);

/// Keys that the traces of a run have in their first line, with their values.
Json header_of(const plan::Run& run);

/// Completes the recipe of one recorded run.
void take_seen(scenario::Promises& promises, const trace::RunTrace& run);

}  // namespace lockstep::judge
