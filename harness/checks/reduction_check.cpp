#include "harness/checks/check.h"
#include "harness/checks/laws_check.h"

namespace lockstep::checks {

CheckResult check_reduction(const CheckInput& input) {
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    for (const trace::RunTrace* const run : input.of(variant))
      combine(total, judge_law(laws::law_named("reduction"), *run, input.scenario.variant(variant)));
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
