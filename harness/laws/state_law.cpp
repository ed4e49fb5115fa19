#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/text.h"
#include "harness/laws/optimizer_rule.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/reduced_sum.h"
#include "harness/laws/state_causes.h"

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

/// A state counts its updates, one by one.
void counts(Outcome& outcome, StateCauses& why, const Sampled& sampled, const RecordPlace& place, const Updated& of) {
  if (sampled.elements.empty() || !sampled.elements[0].has("step")) return;
  const Element& element = sampled.elements[0];
  const double* before = element.before.find("step");
  const double expected = before == nullptr ? 1 : *before + 1;
  ++outcome.judged;
  if (element.step == expected) return;
  why.add("step", explanations_of("step", sampled, of));
  if (outcome.broken) return;
  outcome.broken = Breach{.at = {place.step, Channel::kOptimizer, of.name + ".step", place.rank},
                          .expected = to_decimal(expected) + " updates",
                          .actual = to_decimal(element.step)};
}

/// A state that an optimizer keeps of each parameter.
struct KeptState {
  std::string_view kind, state;
  const char* option = nullptr;  ///< that asks for it; null: always kept
};

/// *Source*: torch.optim, PyTorch 2.11; You et al. 2020.
constexpr std::array<KeptState, 15> kKept = {{{"sgd", "momentum_buffer", "momentum"},
                                              {"adam", "exp_avg"},
                                              {"adam", "exp_avg_sq"},
                                              {"adam", "max_exp_avg_sq", "amsgrad"},
                                              {"adamw", "exp_avg"},
                                              {"adamw", "exp_avg_sq"},
                                              {"adamw", "max_exp_avg_sq", "amsgrad"},
                                              {"adamax", "exp_avg"},
                                              {"adamax", "exp_inf"},
                                              {"lamb", "exp_avg"},
                                              {"lamb", "exp_avg_sq"},
                                              {"rmsprop", "square_avg"},
                                              {"rmsprop", "grad_avg", "centered"},
                                              {"rmsprop", "momentum_buffer", "momentum"},
                                              {"adagrad", "sum"}}};

std::vector<KeptState> kept_by(const Hyperparameters& optimizer) {
  std::vector<KeptState> kept;
  for (const KeptState& one : kKept) {
    if (one.kind != optimizer.kind) continue;
    const Json asked = one.option == nullptr ? Json(true) : optimizer.options.value(one.option, Json(false));
    if (asked != Json(false) && asked != Json(0)) kept.push_back(one);
  }
  return kept;
}

/// A weight that moves has the states that its optimizer keeps; of one that stands, the law `update` tells more.
/// `all_recorded`: a state that is not recorded is not there. Else this holds of an optimizer that keeps other states.
void keeps_all(Outcome& outcome, bool all_recorded, const RecordPlace& place, const Updated& of) {
  if (of.weight == nullptr || of.weight_before == nullptr || trace::same_bits(of.weight_before, of.weight)) return;
  const std::vector<KeptState> kept = kept_by(of.optimizer);
  const auto is_missing = [&](const KeptState& one) { return of.state(std::string(one.state)) == nullptr; };
  const auto missing = std::find_if(kept.begin(), kept.end(), is_missing);
  if (missing == kept.end() || (!all_recorded && std::all_of(kept.begin(), kept.end(), is_missing))) return;
  const std::string state(missing->state);
  ++outcome.judged;
  outcome.broken = Breach{.at = {place.step, Channel::kOptimizer, of.name + "." + state, place.rank},
                          .expected = "the " + state + " of " + of.optimizer.kind,
                          .actual = "none, and the weight moves"};
  if (missing->option == nullptr || of.state_before(state) != nullptr) return;
  outcome.broken->cause = "opt.hyperparameter";
  outcome.broken->evidence = std::string("the recipe asks for '") + missing->option + "', and no " + state + " is kept";
}

void judge_elements(Outcome& outcome, StateCauses& why, const Sampled& sampled, const RecordPlace& place,
                    const Updated& of) {
  const ElementRule rule(of.optimizer.kind, of.options(), of.rate);
  std::vector<std::string_view> seen;  // states that break their formula
  for (const Element& element : sampled.elements) {
    for (const auto& [state, expected] : rule.states(element)) {
      const double bound = kOtherOrder * expected.error(), actual = *element.after.find(state);
      if (!std::isfinite(expected.value()) || !std::isfinite(bound)) continue;
      ++outcome.judged;
      if (std::fabs(actual - expected.value()) <= bound) continue;
      if (std::find(seen.begin(), seen.end(), state) != seen.end()) continue;
      seen.push_back(state);
      if (state != linear_state(of.optimizer.kind, of.options()))  // sketches tell more
        why.add(state, explanations_of(state, sampled, of));
      if (outcome.broken) continue;
      outcome.broken = Breach{.at = {place.step, Channel::kOptimizer, of.name + "." + std::string(state), place.rank},
                              .expected = to_decimal(expected.value()) + " in a sampled element",
                              .actual = to_decimal(actual) + "; rounding explains " + rounded(bound, 3)};
    }
  }
}

}  // namespace

std::string no_state_asked(const trace::RunTrace& run, const scenario::Promises& promises) {
  return Optimizers(run, promises).have_state() ? "" : "SGD without momentum has no state";
}

/// All breaches are looked at: one cause explains them.
Outcome judge_state(const trace::RunTrace& run, const scenario::Promises& promises) {
  Optimizers optimizers(run, promises);
  if (!optimizers.unknown().empty()) return cannot_tell(optimizers.unknown());
  Outcome outcome;
  StateCauses why;
  const bool all_recorded = !promises.known && promises.train.record.holds(Channel::kOptimizer);
  for_each_update(run, optimizers, outcome, [&](const RecordPlace& place, const Updated& of) {
    std::optional<Breach> first = std::exchange(outcome.broken, std::nullopt);
    const auto rule = rule_of(of);
    if (rule && !keeps(outcome, *rule, place.step, place.rank)) {
      outcome.broken->expected = "the state that " + of.optimizer.kind + " makes";
      why.add(linear_state(of.optimizer.kind, of.options()), explanations_of(*rule, of));
    }
    if (!outcome.broken) keeps_all(outcome, all_recorded, place, of);
    if (ElementRule::knows(of.optimizer.kind)) {
      const Sampled sampled = sampled_of(of);
      counts(outcome, why, sampled, place, of);
      judge_elements(outcome, why, sampled, place, of);
    }
    if (first) outcome.broken = std::move(first);
    return true;
  });
  if (outcome.broken && outcome.broken->cause.empty()) why.name(*outcome.broken);
  return outcome;
}

}  // namespace lockstep::laws
