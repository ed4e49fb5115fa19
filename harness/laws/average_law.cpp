#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"
#include "harness/laws/replicas.h"

namespace lockstep::laws {

using trace::Channel;

std::string no_average_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  return promises.known || promises.train.ema_decay ? "" : "the recipe does not average its weights";
}

/// *Source*: torch.optim.swa_utils.get_ema_multi_avg_fn, PyTorch 2.11.
Outcome judge_average(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) return cannot_tell("how this program averages its weights is not promised");
  const double decay = *promises.train.ema_decay;
  Outcome outcome;
  const bool has_all = promises.train.record.holds(Channel::kEma);
  for_each_own_state(run, outcome, [&](std::int64_t step, std::int64_t rank) {
    const Held now(run, static_cast<std::size_t>(rank), step);
    const Held before(run, static_cast<std::size_t>(rank), step - 1);
    // Before its first update a training has none yet.
    const bool is_first = step == run.ranks[static_cast<std::size_t>(rank)].steps.front().step;
    for (const trace::Record* weight : now.all(Channel::kWeight)) {
      if (!has_all || is_first || now.find(Channel::kEma, weight->name) != nullptr) continue;
      outcome.broken = Breach{
          .at = {step, Channel::kEma, weight->name, rank}, .expected = "an average of this weight", .actual = "none"};
      return false;
    }
    const bool begins = !is_first && !before.empty() && before.all(Channel::kEma).empty();  // with copies
    for (const trace::Record* average : now.all(Channel::kEma)) {
      const trace::Record *was = before.find(Channel::kEma, average->name),
                          *weight = now.find(Channel::kWeight, average->name);
      if (begins && weight != nullptr) {
        ++outcome.judged;
        if (trace::same_bits(average, weight)) continue;
        outcome.broken = Breach{.at = {step, Channel::kEma, average->name, rank},
                                .expected = "a copy of the weights: the first average",
                                .actual = "other bits"};
        return false;
      }
      if (was == nullptr || weight == nullptr) continue;
      if (keeps(outcome, {.target = average, .terms = {{decay, was}, {1 - decay, weight}}}, step, rank)) continue;
      outcome.broken->expected = to_decimal(decay) + " of the average before, the rest of the weights";
      if (trace::same_bits(was, average)) {
        outcome.broken->cause = "ema.not_synced";
        outcome.broken->evidence = "the average is as it was before the update, and the weights are not";
      }
      return false;
    }
    return true;
  });
  return outcome;
}

}  // namespace lockstep::laws
