#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/train/data/data.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/loop/checkpoint.h"
#include "harness/train/loop/ema.h"
#include "harness/train/loop/evaluation.h"
#include "harness/train/loop/learning_rates.h"
#include "harness/train/loop/loader.h"
#include "harness/train/loop/rank_context.h"
#include "harness/train/model/model.h"
#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {

/// Parts of one rank's training, made in the order in which Python's script would make them.
/// *Lifetime*: of `rank` and `data`.
struct TrainingParts {
  /// Makes them, and restores from the checkpoint as the recipe asks.
  TrainingParts(const RankContext& rank, const Dataset& data, const std::optional<Checkpoint>& checkpoint);

  /// Another model of the recipe with the same weights, in this dtype.
  std::shared_ptr<Model> copy_of_model(at::ScalarType type) const;

  /// The model's parameters, then its buffers.
  std::vector<NamedTensor> weights(const std::string& prefix = "") const;

  /// Averaged weights, if any.
  std::vector<NamedTensor> averages() const { return ema ? ema->state() : std::vector<NamedTensor>{}; }

  /// In exact arithmetic, rounds the weights to their grid.
  void settle_weights() const;

  /// Updates the averaged weights, if it is their turn: they come after the weights, but for a fault.
  void average(bool before_update);

  const RankContext& rank;
  const recipe::TrainSpec& spec;
  const Dataset& data;
  LearningRates rates;
  Loader loader;
  std::optional<Evaluation> evaluation;
  std::optional<Exact> exact;
  std::shared_ptr<Model> model;
  std::optional<Ddp> ddp;
  recipe::OptimizerChoice recipe;  ///< of the optimizer
  std::optional<Optimizer> optimizer;
  std::optional<Ema> ema;
  std::int64_t updates = 0;
  std::int64_t samples_taken = 0;
  std::int64_t skipped = 0;  ///< updates, because of gradients that were not finite

 private:
  ModelContext context() const;
};

}  // namespace lockstep::train
