#pragma once

#include "harness/base/json.h"
#include "harness/recipe/train_spec.h"

namespace lockstep::train {

/// Whether this process computes with MKL's COMPATIBLE code, as the portable profiles do: its vector square root is not
/// rounded correctly, and differs from processor to processor.
bool has_compatible_mkl();

/// Makes all later computations bitwise reproducible: sets processor profile, thread count and algorithms.
///
/// Call it before the first tensor operation: LibTorch chooses its kernels once per process.
/// *Throws*: InputError if it comes too late to take effect; Unsupported if this processor lacks the profile.
void apply_determinism(const recipe::DeterminismSpec& spec);

/// Settings that decide bits: versions, processor, kernels, threads, flags, environment variables. For the trace's
/// header.
Json environment_manifest();

}  // namespace lockstep::train
