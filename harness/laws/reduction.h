#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/laws/recover.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::laws {

/// The gradients that one rank updates with in one step, held against what the ranks' own gradients make.
struct Reduction {
  std::vector<std::string> judged;  ///< parameters, in the order of the trace
  std::vector<std::string> broken;  ///< those whose gradient is something else
  std::vector<std::string> lost;    ///< those of which neither it nor what makes it is finite
  double distance = 0;              ///< of the first broken one from what was promised
  double bound = 0;                 ///< that rounding can explain
  /// Weights of the ranks' own gradients that fit the broken ones best; nothing where they do not determine them.
  std::optional<Combination> weights;
};

/// Law of the reduction: a reduced gradient is Σ_r weight·local_r, with 1/W or, for a sum, 1 as weight.
///
/// Two orders of adding V float32 numbers differ by at most 2γ(V−1)·Σ|g|, an element at a time and so in the norm;
/// scaling by the weight rounds once more. Sketches are linear and tell distances within a factor of 2 (exactly up to
/// 32 elements). *Source*: Higham 2002, "Accuracy and Stability of Numerical Algorithms", section 4.2.
/// *Lifetime*: of the run.
class ReductionLaw {
 public:
  /// `weight`: of each rank's own gradient. `unit_roundoff`: of what is sent.
  ReductionLaw(const trace::RunTrace& run, double weight, double unit_roundoff);

  /// As a scenario's variant promises it.
  ReductionLaw(const trace::RunTrace& run, const scenario::Promises& promises);

  Reduction judge(std::int64_t step, std::int64_t rank) const;

  /// The first rank that holds something else; nothing where the law is kept.
  std::optional<std::int64_t> first_broken(std::int64_t step) const;

 private:
  Equation equation(std::int64_t step, const trace::Record& reduced) const;

  const trace::RunTrace& run_;
  double weight_, unit_roundoff_;
};

/// Unit roundoff of what a variant's ranks send.
double sent_roundoff(const scenario::Promises& promises);

/// Weights as a person reads them: "0.333, 0.333, 0.333".
std::string to_text(const Combination& combination);

}  // namespace lockstep::laws
