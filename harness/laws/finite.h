#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/trace/trace.h"

/// NaN and infinity hide faults: whatever is added to them is lost, so equal bits there prove nothing.
namespace lockstep::laws {

/// Whether no element of a record is NaN or infinite. Always true for records without floats.
bool is_finite(const trace::Record& record);

/// Whether a record holds NaN or infinity that the training goes on with. Faults in this step or later may not show.
///
/// Three kinds of records never hide a fault:
/// - Samples, inputs, generators, ledger and collectives: they are not computed from weights. A ledger entry that is
/// NaN counts nothing, and hides.
/// - Losses and gradients of a step that leaves weights and optimizer state finite: its update was skipped, as
/// GradScaler does.
/// - A buffer of infinities that never changes, such as a mask. NaN in a buffer always hides.
bool hides(const trace::Record& record, const trace::Step& step, const trace::Trace& rank);

/// Place of a record in a run.
struct RecordPlace {
  std::int64_t step = 0;
  trace::Channel channel = trace::Channel::kSamples;
  std::string tensor;
  std::int64_t rank = 0;

  /// "step 4, weight fc.weight, rank 0".
  std::string text() const;
};

}  // namespace lockstep::laws
