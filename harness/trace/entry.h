#pragma once

/// Names of records that several parts of the harness read. trace/format.md explains them.
namespace lockstep::trace::entry {

// In the ledger.
inline constexpr const char* kEpoch = "epoch";
inline constexpr const char* kLearningRate = "learning_rate";  ///< of a group, with its number behind
inline constexpr const char* kLossDenominator = "loss_denominator";
inline constexpr const char* kLossScale = "loss_scale";
inline constexpr const char* kPasses = "passes";
inline constexpr const char* kSamplesTaken = "samples_taken";
inline constexpr const char* kSkipped = "skipped";
inline constexpr const char* kUpdates = "updates";

// Among the losses.
inline constexpr const char* kReduced = "reduced";

}  // namespace lockstep::trace::entry
