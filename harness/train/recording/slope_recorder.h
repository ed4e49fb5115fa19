#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/record/rank_recorder.h"
#include "harness/train/ddp/gradients.h"
#include "harness/train/loop/criterion.h"
#include "harness/train/loop/micro_batch.h"
#include "harness/train/loop/training_parts.h"
#include "harness/train/recording/slopes.h"

namespace lockstep::train {

/// Records for the law `backward` what the loss alone tells: expected losses, buffers and slopes of local gradients.
/// Nothing that the training computes changes. *Lifetime*: of all of them.
class SlopeRecorder {
 public:
  SlopeRecorder(const TrainingParts& parts, const Criterion& criterion, const Gradients& gradients,
                record::Recorder& recorder)
      : parts_(parts),
        criterion_(criterion),
        gradients_(gradients),
        recorder_(recorder),
        first_update_(parts.updates),
        first_epochs_(parts.loader.epochs_finished()) {}

  /// Begins an update: chooses its parameters.
  void begin();

  /// Adds a micro-batch, before its forward pass.
  void add(const MicroBatch& batch, std::int64_t targets_of_world);

  /// Records slopes and buffers of the update in its ledger.
  void record() const;

 private:
  /// A running mean or variance as a forward pass makes it, in float64.
  struct ExpectedBuffer {
    std::string name;
    double along = 0;     ///< the signs of its sketch
    double rounding = 0;  ///< in the training's dtype, summed over its elements
  };

  std::set<std::size_t> chosen_parameters() const;
  bool tells_most() const;
  void record_expected_loss(const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& labels,
                            const std::string& suffix, std::int64_t targets_of_world);
  void take_expected_buffers(const Copies& copies);

  const TrainingParts& parts_;
  const Criterion& criterion_;
  const Gradients& gradients_;
  record::Recorder& recorder_;
  std::int64_t first_update_, first_epochs_;  ///< where this process begins
  std::set<std::size_t> chosen_;              ///< parameters of this update
  std::map<std::size_t, Slope> slopes_;       ///< of the losses along them
  std::vector<ExpectedBuffer> buffers_;
};

}  // namespace lockstep::train
