#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/base/text.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/scales.h"
#include "harness/laws/update_of_elements.h"
#include "harness/laws/updated.h"
#include "harness/trace/entry.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

/// weight = weight before - rate · direction, where momentum is the direction, or the gradient and its decay.
/// *Source*: torch.optim.SGD, PyTorch 2.11.
std::optional<Rule> rule_of(const Updated& of, bool nesterov) {
  const Json& options = of.options();
  const double momentum = options.value("momentum", 0.0), decay = options.value("weight_decay", 0.0);
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

/// The terms that what is left over is a multiple of; nothing where it is hardly more than rounding.
std::optional<std::vector<Explanation>> explanations_of_sketches(const Rule& rule, const Updated& of,
                                                                 const Distance& distance) {
  const double rounding = distance.bound / distance.distance;
  if (rounding > kFactorFits) return std::nullopt;
  std::vector<std::pair<double, const trace::Sketch*>> rest{{1, &*rule.target->sketch}}, step;
  for (const auto& [coefficient, term] : rule.terms) {
    if (term == nullptr) continue;
    rest.emplace_back(-coefficient, &*term->sketch);
    step.emplace_back(coefficient - (term == of.weight_before ? 1 : 0), &*term->sketch);
  }
  const trace::Sketch left_over = sum_of(rest), update = sum_of(step);
  std::vector<Explanation> found;
  if (of.options().value("nesterov", false)) {
    const auto without = rule_of(of, /*nesterov=*/false);
    const auto its = without ? distance_of(*without) : std::nullopt;
    if (its && !its->is_broken()) return {{{"opt.hyperparameter", "an update without Nesterov's look-ahead fits"}}};
  }
  const auto add = [&](const char* cause, const trace::Sketch& term, const auto& tell) {
    const auto scale = trace::scale_between(term, left_over);
    if (!scale || scale->residual > kFactorFits) return;
    found.push_back({cause, tell(scale->factor), scale->factor, kFactorFits * std::fabs(scale->factor), of.rate});
  };
  for (const auto& [weight, which] : {std::pair(of.weight_before, "before"), {of.weight, "after"}})
    add("opt.decay_scale", *weight->sketch, [&, which = which](double factor) {
      return rounded(factor, 3) + " of the weight " + which + " the update is added";
    });
  add("opt.other_rate", update, [&](double factor) {
    return rounded(1 + factor, 5) + " times the rate of the ledger, " + to_decimal(of.rate) + ", fits";
  });
  return found;
}

bool keeps_sgd(Outcome& outcome, Explanations& why, const RecordPlace& place, const Updated& of) {
  const auto rule = rule_of(of, of.options().value("nesterov", false));
  if (!rule || keeps(outcome, *rule, place.step, place.rank)) return true;
  outcome.broken->expected = "the weight that sgd makes";
  why.narrow(explanations_of_sketches(*rule, of, *distance_of(*rule)));
  return false;
}

bool is_linear(const Updated& of) { return recipe::traits_of(of.optimizer.kind).form == recipe::UpdateForm::kLinear; }

/// An element surely moves by so many roundings of the whole weight.
constexpr double kSurelyMoves = 4;

/// Whether the first update of this kind would move the weight: there an element moves by rate · gradient, or of other
/// kinds than SGD by rate · gradient / (|gradient| + eps). A state of earlier and larger gradients makes a later update
/// smaller; then the formula judges alone.
bool moves_at_first(const Updated& of) {
  if (of.state_before("step") != nullptr) return false;
  if (!of.gradient->norm || !of.weight->norm || !std::isfinite(of.rate)) return false;
  double gradient = *of.gradient->norm / std::sqrt(count_of(*of.gradient));  // the largest element is as large
  if (!is_linear(of)) gradient /= gradient + of.options().value("eps", 0.0) + kLeastNormal;
  return std::fabs(of.rate) * gradient > kSurelyMoves * trace::unit_roundoff(of.weight->dtype) * *of.weight->norm;
}

bool keeps_formula(Outcome& outcome, Explanations& why, const RecordPlace& place, const Updated& of) {
  return is_linear(of) ? keeps_sgd(outcome, why, place, of) : keeps_elements(outcome, why, place, of);
}

bool keeps_weight(Outcome& outcome, Explanations& why, const RecordPlace& place, const Updated& of) {
  if (of.weight_before == nullptr || !trace::same_bits(of.weight_before, of.weight))
    return keeps_formula(outcome, why, place, of);
  Explanations of_formula;
  if (keeps_formula(outcome, of_formula, place, of) && !moves_at_first(of)) return true;
  const std::string seen = "the weight is as it was, with rate " + to_decimal(of.rate) + " and a gradient of norm " +
                           rounded(of.gradient->norm.value_or(0), 3);
  outcome.broken = Breach{.at = place, .expected = "a weight that moves", .actual = seen};
  why.narrow(std::vector<Explanation>{{"opt.no_effect", seen}});
  return false;
}

/// A weight that moves in a step whose update is skipped, or that has no gradient there. PyTorch's optimizers leave
/// such a parameter alone. Nothing of a program, which may set its weights itself.
std::optional<Breach> moves_without_update(const trace::RunTrace& run, const scenario::Promises& promises) {
  const auto records = [&](Channel channel) { return promises.train.record.holds(channel); };
  if (promises.known || !records(Channel::kGradient) || !records(Channel::kWeight)) return std::nullopt;
  std::optional<Breach> found;
  for_each_state(run, [&](std::int64_t step, std::int64_t rank, const Held& now) {
    const Held before(run, static_cast<std::size_t>(rank), step - 1);
    const trace::Record *skips = now.find(Channel::kLedger, trace::entry::kSkipped),
                        *skipped = before.find(Channel::kLedger, trace::entry::kSkipped);
    const bool is_skipped =
        skips != nullptr && !skips->integers.empty() &&
        skips->integers[0] > (skipped == nullptr || skipped->integers.empty() ? 0 : skipped->integers[0]);
    for (const trace::Record* weight : now.all(Channel::kWeight)) {
      const trace::Record* was = before.find(Channel::kWeight, weight->name);
      const bool has_update = !is_skipped && now.find(Channel::kGradient, weight->name) != nullptr;
      if (was == nullptr || has_update || trace::same_bits(was, weight)) continue;
      found = Breach{.at = {step, Channel::kWeight, weight->name, rank},
                     .expected = "the weight before: " +
                                 std::string(is_skipped ? "the update is skipped" : "the parameter has no gradient"),
                     .actual = "another weight"};
      return false;
    }
    return true;
  });
  return found;
}

}  // namespace

/// All breaches are looked at: one cause explains them.
Outcome judge_update(const trace::RunTrace& run, const scenario::Promises& promises) {
  Optimizers optimizers(run, promises);
  if (!optimizers.unknown().empty()) return cannot_tell(optimizers.unknown());
  if (const std::string name = optimizers.without_formula(); !name.empty())
    return cannot_tell("the formula of " + name + " is not known");
  Outcome outcome;
  Explanations why;
  for_each_update(run, optimizers, outcome, [&](const RecordPlace& place, const Updated& of) {
    std::optional<Breach> first = std::exchange(outcome.broken, std::nullopt);
    keeps_weight(outcome, why, place, of);
    if (first) outcome.broken = std::move(first);
    return true;
  });
  if (outcome.broken) why.name(*outcome.broken);
  auto moves = moves_without_update(run, promises);
  if (moves && (!outcome.broken || moves->at.step < outcome.broken->at.step)) outcome.broken = std::move(moves);
  return outcome;
}

}  // namespace lockstep::laws
