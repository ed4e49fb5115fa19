#pragma once

#include <optional>
#include <string>

#include "harness/checks/check.h"
#include "harness/golden/golden_file.h"
#include "harness/trace/trace.h"

namespace lockstep::golden {

/// The golden that a check compares a variant with; nothing if there is none.
/// *Throws*: DamagedFile if it cannot be parsed.
std::optional<trace::RunTrace> golden_of(const checks::CheckInput& input, const std::string& variant);

/// The check `golden` of one run and one entry: of a variant's golden, for the processors of the run.
checks::CheckResult judge_entry(const Golden& golden, const Entry& entry, const checks::CheckInput& input,
                                const std::string& variant, const trace::RunTrace& run);

}  // namespace lockstep::golden
