#pragma once

#include <filesystem>

#include <c10/core/ScalarType.h>

#include "harness/launch/place.h"
#include "harness/train/collective/collective.h"
#include "harness/train/device/device.h"
#include "harness/train/fault/fault.h"
#include "harness/train/loop/run_spec.h"

namespace lockstep::train {

/// One rank of a run: its recipe, its place, and what connects it. *Lifetime*: of all of them.
struct RankContext {
  const RunSpec& run;
  const launch::Place& place;
  const std::filesystem::path& out;  ///< folder of the run, shared by all ranks
  const Device& device;
  Collective& collective;
  const Faults& faults;
};

/// Dtype of weights and inputs.
inline at::ScalarType precision_of(const recipe::TrainSpec& spec) {
  return spec.precision == recipe::Precision::kFloat64 ? at::kDouble : at::kFloat;
}

}  // namespace lockstep::train
