#include "harness/compare/check.h"
#include "harness/compare/rounding.h"

namespace lockstep::compare {
namespace {

/// A difference that rounding explains is no fault of the training's meaning, and should be called what it is.
void classify(Divergence& divergence, const trace::RunTrace& reference, const trace::RunTrace& other) {
  const trace::Record* left = record_at(reference, divergence);
  const trace::Record* right = record_at(other, divergence);
  if (left == nullptr || right == nullptr) return;
  const auto rounding = RoundingBound(reference, other).judge(*left, *right, divergence.step, divergence.rank);
  if (!rounding || !rounding->explained()) return;
  divergence.class_ = "rounding";
  divergence.cause = "no more than rounding: another order of additions, or another kernel";
}

}  // namespace

/// Every later variant against the first, repeat 0 of each.
CheckResult check_equal(const CheckInput& input) {
  CheckResult total;
  const trace::RunTrace& reference = *input.of(input.spec.variants.front()).front();
  for (std::size_t i = 1; i < input.spec.variants.size(); ++i) {
    const trace::RunTrace& other = *input.of(input.spec.variants[i]).front();
    const bool same_world = reference.world_size() == other.world_size();
    CheckResult result = result_of(compare_runs(reference, other, channels_of(input, same_world), bitwise), input);
    if (result.divergence) classify(*result.divergence, reference, other);
    combine(total, std::move(result));
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::compare
