#include "harness/checks/check.h"

namespace lockstep::checks {

/// Every run of the variants ends as a training should.
CheckResult check_finishes(const CheckInput& input) {
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    const auto endings = input.endings.find(variant);
    if (endings == input.endings.end()) continue;
    for (const Ending& ending : endings->second) {
      CheckResult result{.compared = 1};
      if (ending.failure) {
        result.status = CheckResult::Status::kDivergence;
        result.divergence = ending.failure;
      } else if (!ending.undecided.empty()) {
        result = {.status = CheckResult::Status::kInconclusive, .why = ending.run + ": " + ending.undecided};
      }
      combine(total, std::move(result));
    }
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
