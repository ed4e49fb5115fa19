#include "harness/compare/environment.h"

#include "harness/compare/check.h"

namespace lockstep::compare {

/// All ranks of each run have one environment.
CheckResult check_environment(const CheckInput& input) {
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    for (const trace::RunTrace* run : input.of(variant)) {
      CheckResult result;
      for (const trace::Trace& rank : run->ranks) result.compared += rank.header.contains("environment") ? 1 : 0;
      if (const auto found = rank_elsewhere(*run)) {
        const std::string odd = "rank " + std::to_string(found->odd), other = "rank " + std::to_string(found->other);
        const auto suspects =
            suspects_of_environments(run->ranks[found->other].header.value("environment", Json::object()),
                                     run->ranks[found->odd].header.value("environment", Json::object()), other, odd);
        result.status = CheckResult::Status::kDivergence;
        result.divergence = Divergence{.step = trace::kInitialStep,
                                       .rank = static_cast<std::int64_t>(found->odd),
                                       .phase = "start",
                                       .left = run->run + " " + other,
                                       .right = run->run + " " + odd,
                                       .expected = "the environment of " + other,
                                       .actual = suspects.empty() ? "none recorded" : suspects[0].evidence[0],
                                       .class_ = std::string(name_of(Class::kEnvironment)),
                                       .cause = "the ranks of one training do not run in one environment",
                                       .suspects = suspects};
      }
      combine(total, std::move(result));
    }
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::compare
