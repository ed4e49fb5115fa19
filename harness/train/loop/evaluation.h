#pragma once

#include <cstdint>
#include <optional>

#include "harness/recipe/train_spec.h"
#include "harness/train/collective/collective.h"
#include "harness/train/data/data.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/fault/fault.h"

namespace lockstep::train {

/// Sums over targets. Counts are exact in float64.
struct MetricSums {
  double loss = 0;
  double correct = 0;
  double targets = 0;
  std::vector<std::int64_t> ids;  ///< samples that were evaluated, in order; padding too
};

/// Result of an evaluation.
struct Metrics {
  double loss = 0;                      ///< mean over the targets
  double accuracy = 0;                  ///< share of targets with the largest logit
  std::optional<std::int64_t> counted;  ///< number of targets, if it is summed over the ranks
  MetricSums own = {};                  ///< of this rank, before the reduction
  MetricSums rest = {};                 ///< of the samples that each rank evaluates, without reduction
};

/// Number of samples left for training. *Throws*: InputError if it is 0.
std::int64_t training_samples(const std::optional<recipe::EvaluationSpec>& spec, const Dataset& data);

/// Evaluates one rank's held-out samples and reduces its metrics over the ranks.
/// *Lifetime*: of `data`, `collective` and `faults`.
class Evaluation {
 public:
  Evaluation(const recipe::EvaluationSpec& spec, const Dataset& data, const launch::Place& place,
             Collective& collective, const Faults& faults);

  /// Runs the evaluation; leaves the model in training mode.
  Metrics run(Model& model, Ddp& ddp) const;

 private:
  MetricSums evaluate(Ddp& ddp, std::vector<std::int64_t> ids, std::size_t counted) const;
  bool reduces() const;
  at::Tensor reduced(const at::Tensor& own) const;

  recipe::EvaluationSpec spec_;
  const Dataset& data_;
  Collective& collective_;
  const Faults& faults_;
  std::int64_t ranks_;
  std::vector<std::int64_t> mine_;       ///< this rank's sample ids; its metrics are reduced
  std::size_t counted_ = 0;              ///< only the first `counted_` ids of `mine_` count
  std::vector<std::int64_t> leftovers_;  ///< ids that every rank evaluates, without reduction
};

}  // namespace lockstep::train
