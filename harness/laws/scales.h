#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/trace/trace.h"

/// Sizes of what one run adds up: what the bound of rounding is made of.
namespace lockstep::laws {

/// Whether two ledger entries are apart by the last places of the float64 that they are computed in, whatever the
/// precision of the tensors: by another libm, or another rounding mode.
bool differ_in_last_places(const trace::Record& a, const trace::Record& b);

/// Whether two records that differ say nothing against equality in exact arithmetic: rates in their last places; what a
/// rank's loss is divided by, of which a mean over the world's samples knows another number, while a wrong one shows in
/// the loss; and an accuracy, as rounding turns a prediction that is nearly as good as another.
bool differ_harmlessly(const trace::Record& a, const trace::Record& b);

/// "fc1" of "fc1.weight"; empty for a name without a dot. What is added up for one parameter of a layer is added up for
/// all.
std::string layer_of(const std::string& parameter);

/// Number of elements.
double count_of(const trace::Record& record);

/// Smallest normal number of float32: below it roundings are no part of the number any more, or all of it.
inline constexpr double kLeastNormal = 0x1p-126;

/// L2 distance of two tensors by their sketches: within a factor of 2 in 99.9 % of cases.
double estimated_distance(const trace::Sketch& a, const trace::Sketch& b);

/// Norms of one run's records, by layer: "fc1.weight" and "fc1.bias" share theirs.
class Scales {
 public:
  explicit Scales(const trace::RunTrace& run);

  /// Largest norm in the record's layer: at the step for gradients (before the reduction or after), up to it for the
  /// rest.
  double largest(const trace::Record& record, std::int64_t step) const;

  /// Norm of a state's change since the step recorded before; the largest of its layer.
  double update(const trace::Record& record, std::int64_t step) const;

  /// Sum of these changes up to the step.
  double path(const trace::Record& record, std::int64_t step) const;

  /// Terms that reach an element in one step: samples × positions, ranks, fan-in and fan-out of every layer.
  double terms(std::int64_t step) const;

  /// Samples of all ranks in one step; 0 when they are not recorded.
  double samples(std::int64_t step) const;

 private:
  using BySteps = std::map<std::int64_t, double>;

  void add_norms(const trace::RunTrace& run);
  void add_updates(const trace::RunTrace& run);

  std::map<std::string, BySteps> norms_, updates_, paths_;  ///< by layer
  BySteps batch_terms_, samples_;
  double fixed_terms_ = 0;
};

}  // namespace lockstep::laws
