#include <array>
#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/optimizer_rule.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/reduction.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

bool is_on(const Json& options, const char* name) { return options.value(name, Json()) == Json(true); }

/// state = keep · state before + take · (gradient + decay · weight before).
/// *Source*: torch.optim.SGD, Adam, AdamW, Adamax and RMSprop, PyTorch 2.11; LAMB: You et al. 2020, algorithm 2.
std::optional<Rule> rule_of(const Updated& of) {
  const std::string& kind = of.optimizer.kind;
  const Json& options = of.options();
  const std::string name = linear_state(kind, options);
  const trace::Record *state = name.empty() ? nullptr : of.state(name), *before = of.state_before(name);
  if (state == nullptr || !of.gradient->sketch) return std::nullopt;
  const bool coupled = kind != "adamw" && kind != "lamb" && !is_on(options, "decoupled_weight_decay");
  const double decay = coupled ? options.value("weight_decay", 0.0) : 0;
  if (decay != 0 && of.weight_before == nullptr) return std::nullopt;
  double keep = 0, take = 0;
  if (kind == "sgd") {
    keep = options.value("momentum", 0.0);
    take = before == nullptr ? 1 : 1 - options.value("dampening", 0.0);
  } else {
    keep = kind == "rmsprop" ? options.at("alpha").get<double>() : options.at("betas")[0].get<double>();
    take = 1 - keep;
  }
  Rule rule{.target = state, .terms = {{keep, before}, {is_on(options, "maximize") ? -take : take, of.gradient}}};
  if (decay != 0) rule.terms.emplace_back(take * decay, of.weight_before);
  return rule;
}

/// Whether the state is made by its formula, with another momentum, dampening or beta: of SGD the decay keeps its ratio
/// to the gradient; a moving average takes what it does not keep.
bool is_of_other_options(const std::string& kind, const Combination& found, const Rule& rule) {
  const double keep = found.coefficients[0], take = found.coefficients[1];
  if (!(keep >= 0 && keep < 1 && take > 0)) return false;
  if (rule.terms.size() > 2) {
    const double decay = rule.terms[2].first / rule.terms[1].first;
    if (std::fabs(found.coefficients[2] / take - decay) > kFactorFits * decay) return false;
  }
  return kind == "sgd" || std::fabs(keep + take - 1) < kFits;
}

/// Other coefficients that fit the state: hyperparameters that are not the recipe's.
void name_cause(const std::string& kind, const Rule& rule, Breach& breach) {
  const auto found = recover({equation_of(rule)});
  if (!found || found->residual > kFits || found->coefficients.size() != rule.terms.size()) return;
  breach.relation = "state before, gradient" + std::string(rule.terms.size() > 2 ? ", weight" : "") + ": weights " +
                    to_text(*found) + " fit";
  const bool only_decay = rule.terms.size() > 2 && std::fabs(found->coefficients[0] - rule.terms[0].first) < kFits &&
                          std::fabs(found->coefficients[1] - rule.terms[1].first) < kFits;
  breach.cause = only_decay ? "opt.decay_scale" : is_of_other_options(kind, *found, rule) ? "opt.hyperparameter" : "";
  breach.evidence = breach.relation;
}

/// A state counts its updates, one by one.
bool counts(Outcome& outcome, const Sampled& sampled, const RecordPlace& place, const Updated& of) {
  if (sampled.elements.empty() || !sampled.elements[0].has("step")) return true;
  const Element& element = sampled.elements[0];
  const double* before = element.before.find("step");
  const double expected = before == nullptr ? 1 : *before + 1;
  ++outcome.judged;
  if (element.step == expected) return true;
  outcome.broken = Breach{.at = {place.step, Channel::kOptimizer, of.name + ".step", place.rank},
                          .expected = to_decimal(expected) + " updates",
                          .actual = to_decimal(element.step)};
  return false;
}

/// The state that a switch of the recipe asks for is kept.
bool keeps_all(Outcome& outcome, const RecordPlace& place, const Updated& of) {
  constexpr std::array<std::array<const char*, 3>, 2> kKept = {
      {{"amsgrad", "max_exp_avg_sq", "exp_avg_sq"}, {"centered", "grad_avg", "square_avg"}}};
  for (const auto& [option, state, other] : kKept) {
    const bool asked = is_on(of.options(), option), others = of.state(other) != nullptr;
    if (!asked || !others) continue;
    ++outcome.judged;
    if (of.state(state) != nullptr) continue;
    outcome.broken = Breach{.at = {place.step, Channel::kOptimizer, of.name + "." + state, place.rank},
                            .expected = std::string("the state that '") + option + "' keeps",
                            .actual = "none, and the optimizer keeps its other states",
                            .cause = "opt.hyperparameter",
                            .evidence = std::string("the recipe sets '") + option + "', and no " + state + " is kept"};
    return false;
  }
  return true;
}

bool keeps_elements(Outcome& outcome, const ElementRule& rule, const Sampled& sampled, const RecordPlace& place,
                    const Updated& of) {
  for (const Element& element : sampled.elements) {
    for (const auto& [state, expected] : rule.states(element)) {
      const double bound = kOtherOrder * expected.error(), actual = *element.after.find(state);
      if (!std::isfinite(expected.value()) || !std::isfinite(bound)) continue;
      ++outcome.judged;
      if (std::fabs(actual - expected.value()) <= bound) continue;
      outcome.broken = Breach{.at = {place.step, Channel::kOptimizer, of.name + "." + std::string(state), place.rank},
                              .expected = to_decimal(expected.value()) + " in a sampled element",
                              .actual = to_decimal(actual) + "; rounding explains " + rounded(bound, 3)};
      return false;
    }
  }
  return true;
}

}  // namespace

std::string no_state_asked(const trace::RunTrace& run, const scenario::Promises& promises) {
  return Optimizers(run, promises).have_state() ? "" : "SGD without momentum has no state";
}

Outcome judge_state(const trace::RunTrace& run, const scenario::Promises& promises) {
  Optimizers optimizers(run, promises);
  if (!optimizers.unknown().empty()) return cannot_tell(optimizers.unknown());
  Outcome outcome;
  for_each_update(run, optimizers, [&](const RecordPlace& place, const Updated& of) {
    const auto rule = rule_of(of);
    if (rule && !keeps(outcome, *rule, place.step, place.rank)) {
      outcome.broken->expected = "the state that " + of.optimizer.kind + " makes";
      name_cause(of.optimizer.kind, *rule, *outcome.broken);
      return false;
    }
    if (!ElementRule::knows(of.optimizer.kind)) return true;
    const Sampled sampled = sampled_of(of);
    return keeps_all(outcome, place, of) && counts(outcome, sampled, place, of) &&
           keeps_elements(outcome, ElementRule(of.optimizer.kind, of.options(), of.rate), sampled, place, of);
  });
  return outcome;
}

}  // namespace lockstep::laws
