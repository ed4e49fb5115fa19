#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"

namespace lockstep::laws {

using trace::Channel;

/// *Source*: torch.optim.swa_utils.get_ema_multi_avg_fn, PyTorch 2.11.
Outcome judge_average(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) return cannot_tell("nobody promises how this program averages its weights");
  if (!promises.train.ema_decay) return cannot_tell("the recipe does not average its weights");
  const double decay = *promises.train.ema_decay;
  Outcome outcome;
  for (const trace::Step& step : run.ranks[0].steps) {
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const Held before(run, rank, step.step - 1), now(run, rank, step.step);
      for (const trace::Record* average : now.all(Channel::kEma)) {
        const trace::Record *was = before.find(Channel::kEma, average->name),
                            *weight = now.find(Channel::kWeight, average->name);
        if (was == nullptr || weight == nullptr) continue;
        const auto found = distance_of({.target = average, .terms = {{decay, was}, {1 - decay, weight}}});
        if (!found) continue;
        ++outcome.judged;
        if (!found->is_broken()) continue;
        const bool stands = trace::same_bits(was, average);
        outcome.broken = Breach{.at = {step.step, Channel::kEma, average->name, static_cast<std::int64_t>(rank)},
                                .expected = to_decimal(decay) + " of the average before, the rest of the weights",
                                .actual = found->text(),
                                .cause = stands ? "ema.not_synced" : "",
                                .evidence = "the average is as it was before the update, and the weights are not"};
        return outcome;
      }
    }
  }
  return outcome;
}

}  // namespace lockstep::laws
