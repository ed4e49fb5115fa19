#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/recipe/train_spec.h"
#include "harness/record/rank_recorder.h"
#include "harness/train/data/data.h"
#include "harness/train/device/device.h"
#include "harness/train/loop/run_spec.h"

namespace lockstep::train {

/// Selects what to record of a training.
record::Selection selection_of(const recipe::TrainSpec& train);

/// First line of the trace, without the fields that the recorder adds. `samples`: number that the training takes.
/// `inert`: prefixes to skip that matched no name.
Json header_of(const RunSpec& run, const Dataset& data, std::int64_t samples, const Device& device,
               const std::vector<std::string>& inert);

}  // namespace lockstep::train
