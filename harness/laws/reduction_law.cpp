#include <algorithm>

#include "harness/base/text.h"
#include "harness/laws/law.h"
#include "harness/laws/reduced_sum.h"
#include "harness/laws/seen_facts.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

/// Why a program's reduction cannot be judged; empty where it can.
std::string undecidable(const trace::RunTrace& run) {
  if (run.world_size() < 2) return run.run + " is one process: nothing is reduced";
  const Json ddp = seen_of(run, "ddp");
  const Json hook = ddp.is_object() ? ddp.value("comm_hook", Json()) : Json();
  if (hook.is_string())
    return "DDP of " + run.run + " reduces by the communication hook " + hook.get<std::string>() +
           ": its rule is not known";
  const Json fsdp = fsdp_of(run);
  if (fsdp.value("divide_factor", Json()).is_string())
    return "FSDP2 of " + run.run + " divides the sums of its modules by several numbers";
  if (fsdp.value("hook", false)) return "FSDP2 of " + run.run + " calls a hook on what it reduced";
  const bool any = std::any_of(run.ranks[0].steps.begin(), run.ranks[0].steps.end(), [](const trace::Step& step) {
    return std::any_of(step.records.begin(), step.records.end(),
                       [](const trace::Record& record) { return record.channel == Channel::kGradientLocal; });
  });
  if (any) return "";
  const bool wraps = ddp.is_object() && ddp.value("wrap", Json()) == true;
  return wraps ? "no backward pass of " + run.run + " goes through DDP, or all are under no_sync"
               : "the model of " + run.run +
                     " is not wrapped in DDP: gradients before the reduction are not "
                     "recorded";
}

}  // namespace

std::string no_reduction_asked(const trace::RunTrace& run, const scenario::Promises& promises) {
  const bool asked = promises.known || promises.train.ddp.wrap || run.world_size() < 2;
  return asked ? "" : "the recipe does not wrap its model in DDP: nothing is to be reduced";
}

Outcome judge_reduction(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (!promises.train.record.holds(Channel::kGradient) || !promises.train.record.holds(Channel::kGradientLocal))
    return cannot_tell("'" + promises.name + "' does not record its gradients before and after the reduction",
                       "record the channels 'gradient.local' and 'gradient'");
  if (promises.known) {
    if (std::string reason = undecidable(run); !reason.empty()) return cannot_tell(std::move(reason));
  }
  Outcome outcome;
  const ReductionLaw law(run, promises);
  for (const trace::Step& step : run.ranks[0].steps) {
    for (std::int64_t rank = 0; rank < run.world_size(); ++rank) {
      const Reduction reduction = law.judge(step.step, rank);
      outcome.judged += reduction.judged.size();
      const trace::Trace& of_rank = run.ranks[static_cast<std::size_t>(rank)];
      for (const std::string& name : reduction.lost) {
        const trace::Step& now = *of_rank.find(step.step);
        if (!outcome.hidden && hides(*now.find(Channel::kGradient, name), now, of_rank))
          outcome.hidden = {.step = step.step, .channel = Channel::kGradient, .tensor = name, .rank = rank};
      }
      if (reduction.broken.empty()) continue;
      if (changed_by_hand(run, step.step) && !hold_alike_shards(*of_rank.find(step.step), reduction.broken)) {
        outcome.because =
            "the program changes gradients after FSDP2 has reduced them, first at step " + std::to_string(step.step);
        return outcome;
      }
      outcome.broken =
          Breach{.at = {.step = step.step, .channel = Channel::kGradient, .tensor = reduction.broken[0], .rank = rank},
                 .expected = std::string(promises.train.ddp.average ? "their mean" : "their sum"),
                 .actual = rounded(reduction.distance, 3) + " away; rounding explains " + rounded(reduction.bound, 3),
                 .relation = reduction.weights ? "weights " + to_text(*reduction.weights) : ""};
      return outcome;
    }
  }
  return outcome;
}

}  // namespace lockstep::laws
