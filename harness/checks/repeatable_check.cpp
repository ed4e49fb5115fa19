#include "harness/checks/check.h"

namespace lockstep::checks {

/// Every repeat of a variant against its first, rank by rank.
CheckResult check_repeatable(const CheckInput& input) {
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    const auto& repeats = input.of(variant);
    if (repeats.size() < 2)
      combine(total, {.status = CheckResult::Status::kInconclusive,
                      .why = "'" + variant + "' ran only once",
                      .next = "set repeats to 2 or more"});
    for (std::size_t i = 1; i < repeats.size(); ++i) {
      CheckResult result = result_of(
          compare::compare_runs(*repeats.front(), *repeats[i], channels_of(input, *repeats[i]), compare::bitwise),
          input);
      if (result.divergence) {
        result.divergence->class_ = scenario::Class::kNondeterminism;
        result.divergence->cause = "repeats of one training differ; first in: " + result.divergence->cause;
      }
      combine(total, std::move(result));
    }
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
