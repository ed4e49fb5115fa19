#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/text.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/reduced_sum.h"
#include "harness/laws/state_causes.h"
#include "harness/laws/updated.h"

namespace lockstep::laws {
namespace {

using recipe::KeptState;
using trace::Channel;

bool is_on(const Json& options, const char* name) { return options.value(name, Json()) == Json(true); }

/// state = keep · state before + take · (gradient + decay · weight before).
std::optional<Rule> rule_of(const Updated& of) {
  const Json& options = of.options();
  const auto average = recipe::average_of(of.optimizer.kind, options);
  if (!average) return std::nullopt;
  const std::string name(average->state);
  const trace::Record *state = of.state(name), *before = of.state_before(name);
  if (state == nullptr || !of.gradient->sketch) return std::nullopt;
  const double decay = recipe::couples_decay(of.optimizer.kind, options) ? options.value("weight_decay", 0.0) : 0;
  if (decay != 0 && of.weight_before == nullptr) return std::nullopt;
  const double keep = average->keep, take = before == nullptr ? average->take_first : average->take;
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

/// A weight that moves has the states that its optimizer keeps; of one that stands, the law `update` tells more.
/// `all_recorded`: a state that is not recorded is not there. Else this holds of an optimizer that keeps other states.
void keeps_all(Outcome& outcome, bool all_recorded, const RecordPlace& place, const Updated& of) {
  if (of.weight == nullptr || of.weight_before == nullptr || trace::same_bits(of.weight_before, of.weight)) return;
  const std::vector<KeptState> kept = recipe::kept_states(of.optimizer.kind, of.options());
  const auto is_missing = [&](const KeptState& one) { return of.state(std::string(one.name)) == nullptr; };
  const auto missing = std::find_if(kept.begin(), kept.end(), is_missing);
  if (missing == kept.end() || (!all_recorded && std::all_of(kept.begin(), kept.end(), is_missing))) return;
  const std::string state(missing->name);
  ++outcome.judged;
  outcome.broken = Breach{.at = {place.step, Channel::kOptimizer, of.name + "." + state, place.rank},
                          .expected = "the " + state + " of " + of.optimizer.name,
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
      if (state != linear_state(of.optimizer))  // sketches tell more
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
      outcome.broken->expected = "the state that " + of.optimizer.name + " makes";
      why.add(linear_state(of.optimizer), explanations_of(*rule, of));
    }
    if (!outcome.broken) keeps_all(outcome, all_recorded, place, of);
    if (recipe::traits_of(of.optimizer.kind).form >= recipe::UpdateForm::kElements) {
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
