#pragma once

#include <cstdint>
#include <string>

#include "harness/recipe/checkpoint_spec.h"

namespace lockstep::scenario {

/// Reads a completed "checkpoint" object.
recipe::CheckpointSpec checkpoint_spec_from(const Json& completed);

/// Checks what the schema cannot. `steps`: updates of the training. *Throws*: InputError.
void validate(const recipe::CheckpointSpec& spec, std::int64_t steps, std::int64_t world_size,
              const std::string& origin);

}  // namespace lockstep::scenario
