#pragma once

#include <cstdint>
#include <string>

#include "harness/recipe/record_spec.h"

namespace lockstep::scenario {

/// Reads a completed "record" object.
recipe::RecordSpec record_spec_from(const Json& completed);

/// Checks what the schema cannot. `steps`: updates of the training. *Throws*: InputError.
void validate(const recipe::RecordSpec& spec, std::int64_t steps, const std::string& origin);

}  // namespace lockstep::scenario
