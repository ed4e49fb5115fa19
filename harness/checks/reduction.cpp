#include "harness/laws/reduction.h"

#include <optional>

#include "harness/base/text.h"
#include "harness/checks/check.h"
#include "harness/diagnosis/reduction.h"
#include "harness/laws/finite.h"

namespace lockstep::checks {
namespace {

CheckResult judge_run(const trace::RunTrace& run, const scenario::Variant& variant) {
  CheckResult result;
  if (!variant.train.record.holds(trace::Channel::kGradient) ||
      !variant.train.record.holds(trace::Channel::kGradientLocal)) {
    return {.status = CheckResult::Status::kInconclusive,
            .why = "'" + variant.name + "' does not record its gradients before and after the reduction",
            .next = "record the channels 'gradient.local' and 'gradient'"};
  }
  const laws::ReductionLaw law(run, variant);
  std::optional<laws::RecordPlace> hidden;
  for (const trace::Step& step : run.ranks[0].steps) {
    for (std::int64_t rank = 0; rank < run.world_size(); ++rank) {
      const laws::Reduction reduction = law.judge(step.step, rank);
      result.compared += reduction.judged.size();
      const trace::Trace& of_rank = run.ranks[static_cast<std::size_t>(rank)];
      for (const std::string& name : reduction.lost) {
        const trace::Step& now = *of_rank.find(step.step);
        if (!hidden && laws::hides(*now.find(trace::Channel::kGradient, name), now, of_rank))
          hidden = {.step = step.step, .channel = trace::Channel::kGradient, .tensor = name, .rank = rank};
      }
      if (reduction.broken.empty()) continue;
      result.status = CheckResult::Status::kDivergence;
      result.divergence = compare::Divergence{
          .step = step.step,
          .channel = trace::Channel::kGradient,
          .tensor = reduction.broken[0],
          .rank = rank,
          .left = "the ranks' own gradients",
          .right = run.run,
          .expected = std::string(variant.train.ddp.average ? "their mean" : "their sum"),
          .actual = rounded(reduction.distance, 3) + " away; rounding explains " + rounded(reduction.bound, 3),
          .relation = reduction.weights ? "weights " + laws::to_text(*reduction.weights) : "",
          .class_ = scenario::Class::kSemantic,
          .cause = "the reduced gradient does not follow from the ranks' own gradients",
          .suspects = diagnosis::suspects_in_reduction(run, variant, step.step)};
      return result;
    }
  }
  if (hidden) hide_from(result, *hidden, run.run);
  return result;
}

}  // namespace

CheckResult check_reduction(const CheckInput& input) {
  CheckResult total;
  for (const std::string& variant : input.spec.variants) {
    for (const trace::RunTrace* const run : input.of(variant))
      combine(total, judge_run(*run, input.scenario.variant(variant)));
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
