#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "harness/diagnosis/diagnose.h"
#include "harness/judge/evidence.h"
#include "harness/judge/verdict.h"
#include "harness/plan/plan.h"

namespace lockstep::judge {

/// Judges every check of the plan. *Units*: `today` as "2027-01-31", for expectations that end.
Verdict judge(const plan::Plan& plan, const std::vector<Evidence>& evidence, const std::filesystem::path& golden_root,
              const std::string& today);

/// Whether a divergence is where the author expects it, as far as that is said.
bool is_at(const scenario::Expectation& expect, const compare::Divergence& at);

/// Names the causes of a check's divergence anew, after control runs. `again`: whether it came out the same.
void diagnose_again(CheckReport& report, const plan::Plan& plan, const std::vector<Evidence>& evidence,
                    const plan::Check& check, diagnosis::Again again);

/// Sets a check's status from its result and from what the author expects of it.
void settle(CheckReport& report, const scenario::CheckSpec& spec, const std::string& today);

}  // namespace lockstep::judge
