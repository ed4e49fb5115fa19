#include <cmath>

#include "harness/laws/optimizer_rule.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/reduction.h"

namespace lockstep::laws {
namespace {

/// state = keep · state before + take · (gradient + decay · weight before).
/// *Source*: torch.optim.SGD, Adam, AdamW, Adamax and RMSprop, PyTorch 2.11; LAMB: You et al. 2020, algorithm 2.
std::optional<Rule> rule_of(const std::string& kind, const Updated& of) {
  if (of.state == nullptr || !of.gradient->sketch) return std::nullopt;
  const bool coupled = kind != "adamw" && kind != "lamb";
  const double decay = coupled ? of.options.value("weight_decay", 0.0) : 0;
  if (decay != 0 && of.weight_before == nullptr) return std::nullopt;
  double keep = 0, take = 0;
  if (kind == "sgd") {
    keep = of.options.value("momentum", 0.0);
    take = of.state_before == nullptr ? 1 : 1 - of.options.value("dampening", 0.0);
  } else {
    keep = kind == "rmsprop" ? of.options.at("alpha").get<double>() : of.options.at("betas")[0].get<double>();
    take = 1 - keep;
  }
  Rule rule{.target = of.state, .terms = {{keep, of.state_before}, {take, of.gradient}}};
  if (decay != 0) rule.terms.emplace_back(take * decay, of.weight_before);
  return rule;
}

/// Other coefficients that fit the state: hyperparameters that are not the recipe's.
void name_cause(const Rule& rule, Breach& breach) {
  const auto found = recover({equation_of(rule)});
  if (!found || found->residual > kFits || found->coefficients.size() != rule.terms.size()) return;
  breach.relation = "state before, gradient" + std::string(rule.terms.size() > 2 ? ", weight" : "") + ": weights " +
                    to_text(*found) + " fit";
  const bool only_decay = rule.terms.size() > 2 && std::fabs(found->coefficients[0] - rule.terms[0].first) < kFits &&
                          std::fabs(found->coefficients[1] - rule.terms[1].first) < kFits;
  breach.cause = only_decay ? "opt.decay_scale" : "";
  breach.evidence = breach.relation;
}

}  // namespace

Outcome judge_state(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (std::string why = unknown_hyperparameters(promises); !why.empty()) return cannot_tell(std::move(why));
  const std::string& kind = promises.train.optimizer.kind;
  Outcome outcome;
  for_each_update(run, promises, [&](const RecordPlace& place, const Updated& of) {
    const auto rule = rule_of(kind, of);
    if (!rule || keeps(outcome, *rule, place.step, place.rank)) return true;
    outcome.broken->expected = "the state that the recipe's " + kind + " makes";
    name_cause(*rule, *outcome.broken);
    return false;
  });
  if (outcome.judged == 0 && kind == "rmsprop")
    outcome.because = "averages of squares are not linear in the gradient: sketches cannot tell them";
  if (outcome.judged == 0 && kind == "sgd") outcome.because = "SGD without momentum has no state";
  return outcome;
}

}  // namespace lockstep::laws
