#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "harness/judge/evidence.h"
#include "harness/launch/job.h"
#include "harness/plan/plan.h"

/// Runs that this process did not start: another scheduler, a person, or a lockstep that is gone.
namespace lockstep::judge {

/// Reads what they left in `runs_root`, each in the folder of its name.
///
/// A run ended as its outcome.json says, which lockstep writes. Without that file it finished if the traces of all
/// ranks are whole and of this run; else its evidence is lost. The outcome of a run is unknown if it has no folder, if
/// its run.json is of another recipe than the plan's, or if it was interrupted. Neither is a pass. A program's own
/// modules must still be those that it imported. A run of our worker must keep the laws of its recipe, unless a mistake
/// is planted in it: a trace under another's name breaks them. *Throws*: InputError for runs of the plan's scenarios
/// that the plan has not.
std::vector<Evidence> read_unwatched(plan::Plan& plan, const std::filesystem::path& runs_root);

/// Outcomes of those that need not be started again: finished with whole traces, failed or hung. By run.
std::vector<std::optional<launch::RunOutcome>> ended_before(const plan::Plan& plan,
                                                            const std::filesystem::path& runs_root);

}  // namespace lockstep::judge
