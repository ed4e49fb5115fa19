#include "harness/checks/check.h"
#include "harness/compare/environments.h"

namespace lockstep::checks {
namespace {

compare::Party party(const compare::Located& at) { return {at.run->run, static_cast<std::int64_t>(at.rank)}; }

}  // namespace

/// All ranks of each run have one environment.
CheckResult check_environment(const CheckInput& input) {
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    for (const trace::RunTrace* run : input.of(variant)) {
      CheckResult result;
      for (const trace::Trace& rank : run->ranks) result.compared += rank.header.contains("environment") ? 1 : 0;
      if (const auto found = compare::rank_elsewhere(*run)) {
        const std::vector<compare::Suspect> suspects = found->suspects();
        result.status = CheckResult::Status::kDivergence;
        result.divergence = compare::Divergence{.step = trace::kInitialStep,
                                                .rank = static_cast<std::int64_t>(found->odd.rank),
                                                .phase = "start",
                                                .left = party(found->other),
                                                .right = party(found->odd),
                                                .expected = "the environment of " + found->other.name(),
                                                .actual = suspects.empty() ? "none recorded" : suspects[0].evidence[0],
                                                .class_ = scenario::Class::kEnvironment,
                                                .cause = "the ranks of one run have different environments",
                                                .suspects = suspects};
      }
      combine(total, std::move(result));
    }
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
