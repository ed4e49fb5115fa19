#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/checks/check.h"
#include "harness/launch/job.h"

namespace lockstep::judge {

/// Causes of a run's bad end, the likeliest first: from what the ranks last did, and from what they wrote down.
std::vector<compare::Suspect> suspects_in_ending(const launch::RunOutcome& outcome);

/// The rank to blame for a bad end, given its causes; nothing if there is none.
std::optional<std::int64_t> rank_to_blame(const launch::RunOutcome& outcome,
                                          const std::vector<compare::Suspect>& suspects);

/// How a run ended, for a check. `problem`: why a finished run's trace does not count; empty when it does.
checks::Ending ending_of(const launch::RunOutcome& outcome, const std::string& problem);

}  // namespace lockstep::judge
