#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/checks/check.h"
#include "harness/judge/evidence.h"
#include "harness/plan/plan.h"

namespace lockstep::judge {

/// Traces and endings of the runs that one check is about. *Lifetime*: of the evidence.
struct Holdings {
  std::map<std::string, std::vector<const trace::RunTrace*>> traces;  ///< by variant
  std::map<std::string, std::vector<checks::Ending>> endings;
  std::map<std::string, std::string> digests;
  std::vector<std::size_t> missing;  ///< runs of the plan without a trace

  checks::CheckInput input(const scenario::Scenario& scenario, const scenario::CheckSpec& spec,
                           const std::filesystem::path& golden_root) const;
};

Holdings holdings_of(const plan::Plan& plan, const std::vector<Evidence>& evidence, const plan::Check& check);

/// A run whose ranks all left ahead of the recipe's last step as if they were done. Nothing where they were.
std::optional<compare::Divergence> early_end(const plan::Plan& plan, const plan::Run& run,
                                             const trace::RunTrace& trace);

/// Why the steps of a run cannot be matched to another one's; empty where they can.
std::string unplaced(const Holdings& holdings);

}  // namespace lockstep::judge
