#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/optimizer_rule.h"
#include "harness/laws/own_gradients.h"

namespace lockstep::laws {
namespace {

/// weight = weight before - rate · direction, where momentum is the direction, or the gradient and its decay.
/// *Source*: torch.optim.SGD, PyTorch 2.11.
std::optional<Rule> rule_of(const Updated& of) {
  const double momentum = of.options.value("momentum", 0.0), decay = of.options.value("weight_decay", 0.0);
  const bool nesterov = of.options.value("nesterov", false);
  if (of.weight == nullptr || of.weight_before == nullptr || !std::isfinite(of.rate)) return std::nullopt;
  if (momentum != 0 && of.state == nullptr) return std::nullopt;
  Rule rule{.target = of.weight, .terms = {{1, of.weight_before}}};
  if (momentum == 0 || nesterov) {
    rule.terms[0].first -= of.rate * decay;
    rule.terms.emplace_back(-of.rate, of.gradient);
  }
  if (momentum != 0) rule.terms.emplace_back(nesterov ? -of.rate * momentum : -of.rate, of.state);
  return rule;
}

/// What is left over, if it is a multiple of the weights, is decay.
void name_cause(const Rule& rule, const Updated& of, Breach& breach) {
  if (trace::same_bits(of.weight_before, of.weight)) {
    breach.cause = "opt.no_effect";
    breach.evidence = "the weight is as it was, with rate " + to_decimal(of.rate) + " and a gradient of norm " +
                      rounded(of.gradient->norm.value_or(0), 3);
    return;
  }
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

}  // namespace

Outcome judge_update(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (std::string why = unknown_hyperparameters(promises); !why.empty()) return cannot_tell(std::move(why));
  const std::string& kind = promises.train.optimizer.kind;
  if (kind != "sgd")
    return cannot_tell("the update of " + kind + " is not linear in the gradient, and the trace holds sketches only");
  Outcome outcome;
  for_each_update(run, promises, [&](const RecordPlace& place, const Updated& of) {
    const auto rule = rule_of(of);
    if (!rule || keeps(outcome, *rule, place.step, place.rank)) return true;
    outcome.broken->expected = "the weight that the recipe's " + kind + " makes";
    name_cause(*rule, of, *outcome.broken);
    return false;
  });
  return outcome;
}

}  // namespace lockstep::laws
