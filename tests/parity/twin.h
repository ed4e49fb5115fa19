#pragma once

#include <set>
#include <string>

#include "harness/base/json.h"

namespace lockstep::test {

/// Runs every variant of a scenario in the worker and in Python and compares all ranks, record by record, bit for bit.
/// `least_channels` must have been compared: an empty comparison is not parity. `twin`: what Python alone is told.
void expect_parity(const Json& scenario, const std::set<std::string>& least_channels,
                   const Json& twin = Json::object());

/// Channels that every training has.
inline const std::set<std::string> kCore = {"samples",        "input",    "rng",    "loss",
                                            "gradient.local", "gradient", "weight", "ledger"};

/// More than one epoch with shuffle: 60 samples, 24 in a batch, 10 updates.
Json base_scenario(const std::string& name);

}  // namespace lockstep::test
