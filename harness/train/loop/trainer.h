#pragma once

#include <filesystem>

#include "harness/launch/place.h"
#include "harness/train/loop/run_spec.h"

namespace lockstep::train {

/// Trains one rank of one run to its end and records its trace in `out`.
/// *Throws*: the errors of base/error.h, and LibTorch's when a peer goes away.
void train(const RunSpec& run, const launch::Place& place, const std::filesystem::path& out);

}  // namespace lockstep::train
