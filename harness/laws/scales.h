#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/recipe/rounded.h"
#include "harness/trace/trace.h"

/// Norms and numbers of terms in one run, from which the rounding bound is computed.
namespace lockstep::laws {

/// Whether two ledger entries differ only in the last bits of a float64, because of another libm or rounding mode.
bool differ_in_last_places(const trace::Record& a, const trace::Record& b);

/// Whether two different records are compatible with equality in exact arithmetic:
/// - learning rates that differ in their last bits;
/// - denominators of a rank's loss: a mean over all ranks' samples uses another number, and a wrong one shows in the
/// loss;
/// - accuracies: rounding flips a prediction whose two best logits are nearly equal.
bool differ_harmlessly(const trace::Record& a, const trace::Record& b);

/// "fc1" for "fc1.weight"; empty for a name without a dot. The parameters of a layer share a scale.
std::string layer_of(const std::string& parameter);

/// Number of elements.
double count_of(const trace::Record& record);

using recipe::kLeastNormal;

/// L2 distance of two tensors, estimated from sketches: within a factor of 2 in 99.9 % of cases.
double estimated_distance(const trace::Sketch& a, const trace::Sketch& b);

/// Norms of one run's records, by layer: "fc1.weight" and "fc1.bias" share one.
class Scales {
 public:
  explicit Scales(const trace::RunTrace& run);

  /// Largest norm in the record's layer. Gradients: in this step, before or after the reduction. Others: up to this
  /// step.
  double largest(const trace::Record& record, std::int64_t step) const;

  /// Norm of a state's change since the previous recorded step; the largest of its layer.
  double update(const trace::Record& record, std::int64_t step) const;

  /// Sum of these norms up to the step.
  double path(const trace::Record& record, std::int64_t step) const;

  /// Number of terms that reach an element in one step: samples × positions, ranks, fan-in and fan-out of every layer.
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

/// So many times the rounding that was measured on a copy of a step may the step itself have.
inline constexpr double kOfCopy = 8;

/// Norms between these are sums of squares that neither vanish nor overflow in float32.
inline constexpr double kLeastNorm = 0x1p-60;
inline constexpr double kMostNorm = 0x1p60;

inline bool has_norm(double norm) { return norm > kLeastNorm && norm < kMostNorm; }

}  // namespace lockstep::laws
