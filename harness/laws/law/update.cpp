#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/optimizer_rule.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/update_of_elements.h"

namespace lockstep::laws {
namespace {

/// weight = weight before - rate · direction, where momentum is the direction, or the gradient and its decay.
/// *Source*: torch.optim.SGD, PyTorch 2.11.
std::optional<Rule> rule_of(const Updated& of) {
  const Json& options = of.options();
  const double momentum = options.value("momentum", 0.0), decay = options.value("weight_decay", 0.0);
  const bool nesterov = options.value("nesterov", false);
  const double sign = options.value("maximize", Json()) == Json(true) ? -1 : 1;
  const trace::Record* state = momentum == 0 ? nullptr : of.state("momentum_buffer");
  if (of.weight == nullptr || of.weight_before == nullptr || !std::isfinite(of.rate)) return std::nullopt;
  if (momentum != 0 && state == nullptr) return std::nullopt;
  Rule rule{.target = of.weight, .terms = {{1, of.weight_before}}};
  if (momentum == 0 || nesterov) {
    rule.terms[0].first -= of.rate * decay;
    rule.terms.emplace_back(-of.rate * sign, of.gradient);
  }
  if (momentum != 0) rule.terms.emplace_back(nesterov ? -of.rate * momentum : -of.rate, state);
  return rule;
}

/// What is left over, if it is a multiple of the weights, is decay.
void name_cause(const Rule& rule, const Updated& of, Breach& breach) {
  if (stands_still(of, breach)) return;
  std::vector<std::pair<double, const trace::Sketch*>> rest{{1, &*rule.target->sketch}};
  for (const auto& [coefficient, term] : rule.terms)
    if (term != nullptr) rest.emplace_back(-coefficient, &*term->sketch);
  const trace::Sketch left_over = sum_of(rest);
  for (const auto& [weight, which] : {std::pair(of.weight_before, "before"), {of.weight, "after"}}) {
    const auto found = trace::scale_between(*weight->sketch, left_over);
    if (!found || found->residual > kFactorFits) continue;
    breach.relation = rounded(found->factor, 3) + " of the weight " + which + " the update is added";
    breach.cause = "opt.decay_scale";
    breach.evidence = breach.relation;
    return;
  }
}

bool keeps_sgd(Outcome& outcome, const RecordPlace& place, const Updated& of) {
  const auto rule = rule_of(of);
  if (!rule || keeps(outcome, *rule, place.step, place.rank)) return true;
  outcome.broken->expected = "the weight that sgd makes";
  name_cause(*rule, of, *outcome.broken);
  return false;
}

}  // namespace

Outcome judge_update(const trace::RunTrace& run, const scenario::Promises& promises) {
  Optimizers optimizers(run, promises);
  if (!optimizers.unknown().empty()) return cannot_tell(optimizers.unknown());
  for (const std::string& kind : optimizers.kinds()) {
    if (kind != "sgd" && !ElementRule::knows(kind)) return cannot_tell("the formula of " + kind + " is not known");
  }
  Outcome outcome;
  for_each_update(run, optimizers, [&](const RecordPlace& place, const Updated& of) {
    return of.optimizer.kind == "sgd" ? keeps_sgd(outcome, place, of) : keeps_elements(outcome, place, of);
  });
  return outcome;
}

}  // namespace lockstep::laws
