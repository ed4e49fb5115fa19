#include <map>
#include <string>
#include <utility>

#include "harness/laws/held.h"
#include "harness/laws/law.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/replicas.h"
#include "harness/laws/seen_facts.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

constexpr const char* kUnscaled = "unscaled ";

/// A GradScaler keeps it in float32, whatever the dtype of the gradients.
double reciprocal_of(double scale) { return static_cast<double>(static_cast<float>(1 / scale)); }

/// Whether all gradients were clipped while they were scaled: each is that of its rule, times one factor below 1.
std::string cause_of(const Rule& rule, const scenario::Promises& promises) {
  const auto found = trace::scale_between(*rule.terms[0].second->sketch, *rule.target->sketch);
  const double factor = found ? found->factor / rule.terms[0].first : 1;
  const bool clips = promises.train.gradient.clip_norm.has_value();
  return clips && found && found->residual < kFits && factor > 0 && factor < 1 ? "clip.before_unscale" : "";
}

}  // namespace

std::string no_unscaling_asked(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (!promises.known) return promises.train.gradient.loss_scale ? "" : "the recipe does not scale its loss";
  return seen_of(run, "grad_scaler") == Json(false) ? "the program has no GradScaler" : "";
}

Outcome judge_unscaling(const trace::RunTrace& run, const scenario::Promises& promises) {
  Outcome outcome;
  for_each_own_state(run, outcome, [&](std::int64_t step, std::int64_t rank) {
    const Held held(run, static_cast<std::size_t>(rank), step);
    const auto scale = loss_scale_of(held);
    if (!scale) return true;
    std::map<std::string, const trace::Record*> last;  // a program may clip first: the law `usage` finds that
    for (const trace::Record* record : held.all(Channel::kGradient)) {
      const trace::Record* scaled = std::exchange(last[parameter_of(record->name)], record);
      if (!record->name.starts_with(kUnscaled)) continue;
      if (!promises.known) scaled = held.find(Channel::kGradient, parameter_of(record->name));
      if (scaled == nullptr) continue;
      const Rule rule{.target = record, .terms = {{reciprocal_of(*scale), scaled}}};
      if (keeps(outcome, rule, step, rank)) continue;
      outcome.broken->expected = "the reduced gradient divided by the loss scale";
      outcome.broken->cause = cause_of(rule, promises);
      outcome.broken->evidence = "the unscaled gradient is smaller by one factor: it was clipped before";
      return false;
    }
    return true;
  });
  return promises.known ? unless_changed_by_hand(std::move(outcome)) : outcome;
}

}  // namespace lockstep::laws
