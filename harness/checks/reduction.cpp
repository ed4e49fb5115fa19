#include "harness/laws/reduction.h"

#include <algorithm>
#include <optional>

#include "harness/base/text.h"
#include "harness/checks/check.h"
#include "harness/diagnosis/reduction.h"
#include "harness/diagnosis/seen.h"
#include "harness/laws/finite.h"

namespace lockstep::checks {
namespace {

/// Why a program's reduction cannot be judged; nothing where it can.
std::optional<CheckResult> undecidable(const trace::RunTrace& run, const scenario::Variant& variant) {
  if (!variant.program) return std::nullopt;
  const auto because = [](std::string why) {
    return CheckResult{.status = CheckResult::Status::kInconclusive, .why = std::move(why)};
  };
  if (run.world_size() < 2) return because(run.run + " is one process: nothing is reduced");
  const Json ddp = diagnosis::seen_of(run, "ddp");
  const Json hook = ddp.is_object() ? ddp.value("comm_hook", Json()) : Json();
  if (hook.is_string())
    return because("DDP of " + run.run + " reduces by the communication hook " + hook.get<std::string>() +
                   ": its rule is not known");
  const bool any = std::any_of(run.ranks[0].steps.begin(), run.ranks[0].steps.end(), [](const trace::Step& step) {
    return std::any_of(step.records.begin(), step.records.end(),
                       [](const trace::Record& record) { return record.channel == trace::Channel::kGradientLocal; });
  });
  if (any) return std::nullopt;
  const bool wraps = ddp.is_object() && ddp.value("wrap", Json()) == true;
  return because(wraps ? "no backward pass of " + run.run + " goes through DDP, or all are under no_sync"
                       : "the model of " + run.run +
                             " is not wrapped in DDP: gradients before the reduction are not "
                             "recorded");
}

CheckResult judge_run(const trace::RunTrace& run, const scenario::Variant& variant) {
  CheckResult result;
  if (!variant.train.record.holds(trace::Channel::kGradient) ||
      !variant.train.record.holds(trace::Channel::kGradientLocal)) {
    return {.status = CheckResult::Status::kInconclusive,
            .why = "'" + variant.name + "' does not record its gradients before and after the reduction",
            .next = "record the channels 'gradient.local' and 'gradient'"};
  }
  if (auto reason = undecidable(run, variant)) return *reason;
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
