#pragma once

#include <string>
#include <vector>

#include "harness/base/problems.h"
#include "harness/scenario/scenario.h"

namespace lockstep::scenario {

/// Reads "checks", completes them and resolves names and patterns against `variants`, the names of all variants of the
/// scenario. Adds all errors to `problems`; each names its check. A check with
/// errors keeps its place in the list. Rules that depend on a variant use those of the
/// scenario.
std::vector<CheckSpec> checks_from(const Json& checks, const Scenario& scenario,
                                   const std::vector<std::string>& variants, Problems& problems);

/// Variants that match a pattern. *Throws*: InputError at `where` if none does; `who` asks: "a check".
std::vector<std::string> variants_matching(const std::string& pattern, const std::vector<std::string>& all,
                                           const std::string& where, const std::string& who);

}  // namespace lockstep::scenario
