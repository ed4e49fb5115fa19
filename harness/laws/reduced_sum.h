#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/laws/recover.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::laws {

/// Reduced gradients of one rank in one step, compared with the promised reduction of the local gradients.
struct Reduction {
  std::vector<std::string> judged;  ///< parameters, in the order of the trace
  std::vector<std::string> broken;  ///< parameters whose gradient breaks the law
  std::vector<std::string> lost;    ///< parameters whose reduced and local gradients are not finite
  double distance = 0;              ///< of the first broken one from the promised reduction
  double bound = 0;                 ///< largest distance that rounding can explain
  /// Weights of the local gradients that fit the broken ones best; nothing if they are not unique.
  std::optional<Combination> weights;
};

/// Law of the reduction: a reduced gradient is Σ_r weight·local_r. The weight is 1/W for gradient averaging, 1 for a
/// sum.
///
/// Sums of V float32 numbers in two orders differ by at most 2γ(V−1)·Σ|g| in each element, and so in the norm. Scaling
/// by the weight rounds once more. Passes that are reduced in turn round in turn. Sketches are linear; their distances
/// are right within a factor of 2 (exact up to 32 elements). *Source*: Higham 2002, "Accuracy and Stability of
/// Numerical Algorithms", section 4.2. *Lifetime*: of the run.
class ReductionLaw {
 public:
  /// `weight`: of each local gradient. `unit_roundoff`: of the dtype that is sent.
  ReductionLaw(const trace::RunTrace& run, double weight, double unit_roundoff);

  /// The law that a variant promises.
  ReductionLaw(const trace::RunTrace& run, const scenario::Promises& promises);

  Reduction judge(std::int64_t step, std::int64_t rank) const;

  /// First rank whose gradients break the law; nothing if none does.
  std::optional<std::int64_t> first_broken(std::int64_t step) const;

 private:
  const trace::RunTrace& run_;
  double weight_, unit_roundoff_;
};

/// Whether a program changed gradients of a step after FSDP2 had reduced them: they need not be the mean any more.
bool changed_by_hand(const trace::RunTrace& run, std::int64_t step);

/// Whether most of a rank's gradients of these names are put together of shards that hold the same numbers.
bool hold_alike_shards(const trace::Step& step, const std::vector<std::string>& names);

/// Unit roundoff of the dtype in which ranks send gradients, as the variant promises it, or as FSDP2 was told.
double sent_roundoff(const trace::RunTrace& run, const scenario::Promises& promises);

/// Weights as text: "0.333, 0.333, 0.333".
std::string to_text(const Combination& combination);

}  // namespace lockstep::laws
