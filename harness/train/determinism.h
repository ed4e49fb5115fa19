#pragma once

#include "harness/base/json.h"
#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// Makes the bits of everything computed after it reproducible: processor profile, thread count, algorithms.
///
/// Must come before the first tensor operation: LibTorch chooses its kernels once, for the process's whole life.
/// *Throws*: InputError when it comes too late to take effect, Unsupported when this processor lacks the profile.
void apply_determinism(const scenario::DeterminismSpec& spec);

/// What in force decides bits: versions, processor, kernels, threads, flags, environment variables. For the trace's
/// header.
Json environment_manifest();

}  // namespace lockstep::train
