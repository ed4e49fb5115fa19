#include "harness/checks/across_layouts.h"
#include "harness/checks/check.h"
#include "harness/checks/numbers.h"
#include "harness/compare/rounding.h"

namespace lockstep::checks {
/// Every later variant against the first.
CheckResult check_equal(const CheckInput& input) {
  CheckResult total;
  const auto judge = [&input](const trace::RunTrace& reference, const trace::RunTrace& other) {
    std::vector<trace::Channel> channels = channels_of(input, reference, other);
    const std::string unlike = leave_collectives_out(reference, other, input, channels);
    CheckResult result = result_of(
        compare::compare_runs(reference, other, channels, compare::bitwise, across_layouts(reference, other)), input);
    if (result.divergence) {
      compare::name_rounding(*result.divergence, reference, other);
      name_equal_numbers(*result.divergence, reference, other, channels, input);
    }
    const std::string left_out = left_out_across_layouts(reference, other);
    if (result.status == CheckResult::Status::kAgree)
      result.why = unlike + (unlike.empty() || left_out.empty() ? "" : "; ") + left_out;
    return result;
  };
  for (std::size_t i = 1; i < input.spec.variants.size(); ++i)
    combine(total, for_each_repeat(input, input.spec.variants[0], input.spec.variants[i], judge));
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
