#include "harness/compare/check.h"
#include "harness/compare/rounding.h"

namespace lockstep::compare {

/// Every later variant against the first: equal up to rounding.
CheckResult check_rounding(const CheckInput& input) {
  CheckResult total;
  const trace::RunTrace& reference = *input.of(input.spec.variants.front()).front();
  for (std::size_t i = 1; i < input.spec.variants.size(); ++i) {
    const trace::RunTrace& other = *input.of(input.spec.variants[i]).front();
    const bool same_world = reference.world_size() == other.world_size();
    combine(total, result_of(compare_runs(reference, other, channels_of(input, same_world), within_rounding(reference, other))));
  }
  return total;
}

}  // namespace lockstep::compare
