#pragma once

#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep::scenario {

/// Reads completed "checks": resolves names and patterns against the scenario's variants.
/// *Throws*: InputError for a variant, channel or combination that cannot be checked; it names the check.
std::vector<CheckSpec> checks_from(const Json& checks, const Scenario& scenario);

/// Names of all channels, from the schema's default of train.record.channels.
std::vector<std::string> channel_names_of_schema();

}  // namespace lockstep::scenario
