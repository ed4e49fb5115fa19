#include "harness/experiment/case.h"

#include <algorithm>

#include "harness/compare/ladder.h"

namespace lockstep::experiment {

using judge::Status;

std::vector<std::string> variants_of(const scenario::CheckSpec& spec) {
  std::vector<std::string> names = spec.variants;
  for (const std::string& name : {spec.straight, spec.interrupted}) {
    if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

std::optional<Case> case_of(judge::CheckReport& report, const scenario::Scenario& scenario, const plan::Check& check,
                            const Runs& before) {
  const checks::CheckResult& result = report.result;
  if (report.status != Status::kDivergence && report.status != Status::kInconclusive) return std::nullopt;
  if (result.divergence && !result.divergence->phase.empty()) return std::nullopt;  // no record differs
  if (result.status == checks::CheckResult::Status::kAgree) return std::nullopt;    // expected to fail, and did not
  const scenario::CheckSpec& spec = check.spec;
  Finding finding{.result = result,
                  .sides = spec.variants.empty() ? std::vector{spec.straight, spec.interrupted} : spec.variants,
                  .is_of_repeats = spec.traits().sides == scenario::Sides::kRepeats,
                  .wants_same_bits = spec.traits().wants_same_bits(),
                  .is_up_to_rounding = spec.traits().wanted == scenario::Wanted::kUpToRounding ||
                                       checks::resumes_at_another_world_size(scenario, spec)};
  finding.can_step_alone = std::none_of(finding.sides.begin(), finding.sides.end(), [&](const std::string& side) {
    return scenario.variant(side).program.has_value();
  });
  if (result.divergence) {
    const Side left = before.left(*result.divergence), right = before.right(*result.divergence);
    finding.has_both_runs = left.run != nullptr && right.run != nullptr;
    finding.differs_slightly =
        finding.has_both_runs &&
        compare::differ_slightly(*left.run, *right.run, place_of(*result.divergence, left, right));
  } else {
    const auto finished = [&](const std::string& side) { return before.first_of(side) != nullptr; };
    if (!finding.is_up_to_rounding || !std::all_of(finding.sides.begin(), finding.sides.end(), finished))
      return std::nullopt;
  }
  return Case{.report = report, .scenario = scenario, .check = check, .finding = std::move(finding)};
}

std::vector<std::string> variants_worth_trying(const Case& one) {
  const std::vector<std::string> all = variants_of(one.check.spec);
  if (!one.differs()) return all;
  if (one.now.unstable) return {one.now.unstable->variant};
  if (one.finding.is_up_to_rounding) return all;
  std::vector<std::string> sides = all;
  std::erase_if(sides, [&](const std::string& name) {
    return name != variant_of(one.at().left.run) && name != variant_of(one.at().right.run);
  });
  return sides.empty() ? all : sides;
}

}  // namespace lockstep::experiment
