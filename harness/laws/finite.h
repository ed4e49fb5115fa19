#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/trace/trace.h"

/// NaN and infinity swallow whatever is added to them or multiplied with them: bits that are equal there prove nothing.
namespace lockstep::laws {

/// Whether no element of a record is NaN or infinite; of records that hold no floats always.
bool is_finite(const trace::Record& record);

/// Whether a record holds NaN or infinity from which its rank trains on: a fault in its step, or after it, may not
/// show.
///
/// Not so of what the rank is given (samples, inputs, generators), counts (ledger) and issues (collectives): these are
/// not computed from weights. Not so of losses and gradients of a step that leaves weights and optimizer state finite:
/// its update was skipped, as a GradScaler does. Not so of a buffer that never changes: a mask.
bool hides(const trace::Record& record, const trace::Step& step, const trace::Trace& rank);

/// Where a record is.
struct RecordPlace {
  std::int64_t step = 0;
  trace::Channel channel = trace::Channel::kSamples;
  std::string tensor;
  std::int64_t rank = 0;

  /// "step 4, weight fc.weight, rank 0".
  std::string text() const;
};

}  // namespace lockstep::laws
