#include "harness/checks/check.h"
#include "harness/checks/numbers.h"
#include "harness/compare/rounding.h"
#include "harness/laws/seen_facts.h"

namespace lockstep::checks {
/// Every later variant against the first.
CheckResult check_equal(const CheckInput& input) {
  CheckResult total;
  const auto judge = [&input](const trace::RunTrace& reference, const trace::RunTrace& other) {
    std::vector<trace::Channel> channels = channels_of(input, reference, other);
    const bool exchanges_other = input.spec.channels.empty() && laws::lie_otherwise(reference, other) &&
                                 std::erase(channels, trace::Channel::kCollective) > 0;
    CheckResult result = result_of(compare::compare_runs(reference, other, channels, compare::bitwise), input);
    if (result.divergence) {
      compare::name_rounding(*result.divergence, reference, other);
      name_equal_numbers(*result.divergence, reference, other, channels, input);
    }
    if (exchanges_other && result.status == CheckResult::Status::kAgree)
      result.why = "collectives are not compared: the ranks share the model in different ways";
    return result;
  };
  for (std::size_t i = 1; i < input.spec.variants.size(); ++i)
    combine(total, for_each_repeat(input, input.spec.variants[0], input.spec.variants[i], judge));
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
