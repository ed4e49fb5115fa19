#pragma once

#include <string>
#include <vector>

#include "harness/record/rank_recorder.h"
#include "harness/train/ddp/gradients.h"
#include "harness/train/loop/micro_batch.h"
#include "harness/train/loop/training_parts.h"
#include "harness/train/recording/slope_recorder.h"

namespace lockstep::train {

/// Records an update's batch, its ledger, and the state after it. *Lifetime*: of all of them.
class StepRecorder {
 public:
  StepRecorder(const TrainingParts& parts, const Gradients& gradients, record::Recorder& recorder)
      : parts_(parts), gradients_(gradients), recorder_(recorder) {}

  /// The input of a forward pass.
  void input(const MicroBatch& batch);

  /// The loss of a micro-batch.
  void local_loss(const MicroBatch& batch, const at::Tensor& loss) { scalar("local" + batch.suffix, loss); }

  /// Samples, the loss of all ranks where somebody wants it, and the update's collectives. Call on every rank.
  void batch(Batch& batch);

  void ledger(const Batch& batch, const std::vector<double>& learning_rates, const SlopeRecorder& slopes);
  void metrics(const Metrics& metrics);
  void state();

 private:
  void scalar(const std::string& name, const at::Tensor& loss);
  void sums(const std::string& whose, const MetricSums& sums);
  void tensors(trace::Channel channel, const std::vector<NamedTensor>& all);

  const TrainingParts& parts_;
  const Gradients& gradients_;
  record::Recorder& recorder_;
};

}  // namespace lockstep::train
