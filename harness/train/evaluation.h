#pragma once

#include <cstdint>
#include <optional>

#include "harness/scenario/train_spec.h"
#include "harness/train/collective.h"
#include "harness/train/data.h"
#include "harness/train/ddp.h"

namespace lockstep::train {

/// Result of an evaluation.
struct Metrics {
  double loss = 0;                      ///< mean over the targets
  double accuracy = 0;                  ///< share of targets with the largest logit
  std::optional<std::int64_t> counted;  ///< number of targets, if it is summed over the ranks
};

/// Number of samples left for training. *Throws*: InputError if it is 0.
std::int64_t training_samples(const std::optional<scenario::EvaluationSpec>& spec, const Dataset& data);

/// Evaluates one rank's held-out samples and reduces its metrics over the ranks.
/// *Lifetime*: of `data` and `collective`.
class Evaluation {
 public:
  Evaluation(const scenario::EvaluationSpec& spec, const Dataset& data, const launch::Place& place,
             Collective& collective);

  /// Runs the evaluation; leaves the model in training mode. `divisor`: for means over the ranks; normally their
  /// number. `in_training_mode`: a mistake.
  Metrics run(Model& model, Ddp& ddp, std::int64_t divisor, bool in_training_mode) const;

 private:
  /// Sums over targets. Counts are exact in float64.
  struct Sums {
    double loss = 0;
    double correct = 0;
    double targets = 0;
  };
  Sums evaluate(Ddp& ddp, const std::vector<std::int64_t>& ids, std::size_t counted) const;
  bool reduces() const;
  at::Tensor reduced(const at::Tensor& own) const;

  scenario::EvaluationSpec spec_;
  const Dataset& data_;
  Collective& collective_;
  std::vector<std::int64_t> mine_;       ///< this rank's sample ids; its metrics are reduced
  std::size_t counted_ = 0;              ///< only the first `counted_` ids of `mine_` count
  std::vector<std::int64_t> leftovers_;  ///< ids that every rank evaluates, without reduction
};

}  // namespace lockstep::train
