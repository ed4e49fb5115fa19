#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/record/recorder.h"
#include "harness/scenario/record_spec.h"
#include "harness/train/data.h"
#include "harness/train/device.h"
#include "harness/train/run_spec.h"

namespace lockstep::train {

/// What of a training is recorded.
record::Selection selection_of(const scenario::RecordSpec& spec);

/// First line of the trace, but for what the recorder adds. `samples`: that the training takes. `inert`: prefixes whose
/// skipping did nothing.
Json header_of(const RunSpec& run, const Dataset& data, std::int64_t samples, const Device& device,
               const std::vector<std::string>& inert);

}  // namespace lockstep::train
