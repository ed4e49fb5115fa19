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

/// Every later variant against the first.
CheckResult check_equal(const CheckInput& input) {
  CheckResult total;
  const auto judge = [&input](const trace::RunTrace& reference, const trace::RunTrace& other) {
    const std::vector<trace::Channel> channels = channels_of(input, same_shape(reference, other));
    CheckResult result = result_of(compare_runs(reference, other, channels, bitwise), input);
    if (result.divergence) classify(*result.divergence, reference, other);
    return result;
  };
  for (std::size_t i = 1; i < input.spec.variants.size(); ++i)
    combine(total, for_each_repeat(input, input.spec.variants[0], input.spec.variants[i], judge));
  return concluded(std::move(total));
}

}  // namespace lockstep::compare
