#pragma once

#include <cstdint>
#include <optional>

#include "harness/scenario/train_spec.h"
#include "harness/train/collective.h"
#include "harness/train/data.h"
#include "harness/train/ddp.h"

namespace lockstep::train {

/// What a validation loop reports.
struct Metrics {
  double loss = 0;                      ///< mean over the targets
  double accuracy = 0;                  ///< share of targets whose logit is the largest
  std::optional<std::int64_t> counted;  ///< targets, where they are counted over the ranks
};

/// Samples that are left to train on. *Throws*: InputError when there are none.
std::int64_t training_samples(const std::optional<scenario::EvaluationSpec>& spec, const Dataset& data);

/// The held-out samples of one rank, and how its metrics become those of all.
/// *Lifetime*: of `data` and `collective`.
class Evaluation {
 public:
  Evaluation(const scenario::EvaluationSpec& spec, const Dataset& data, const launch::Place& place,
             Collective& collective);

  /// Evaluates; the model is left in training mode. `divisor`: of a mean over the ranks; rightly their number.
  Metrics run(Model& model, Ddp& ddp, std::int64_t divisor) const;

 private:
  /// Sums over targets. *Units*: exact counts in float64.
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
  std::vector<std::int64_t> mine_;       ///< reduced over the ranks
  std::size_t counted_ = 0;              ///< the first so many of them
  std::vector<std::int64_t> leftovers_;  ///< evaluated on every rank, and not reduced
};

}  // namespace lockstep::train
