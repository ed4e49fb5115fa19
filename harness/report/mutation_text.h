#pragma once

#include <string>

#include "harness/base/json.h"
#include "harness/judge/mutation_table.h"

namespace lockstep::report {

/// Each practice with its checks and mutations, and the figures.
std::string to_text(const judge::MutationTable& table);

/// "lockstep.mutations/1".
Json to_json(const judge::MutationTable& table);

}  // namespace lockstep::report
