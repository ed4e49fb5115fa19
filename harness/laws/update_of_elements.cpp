#include "harness/laws/update_of_elements.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/scales.h"

namespace lockstep::laws {
namespace {

/// One element as it is, and as a formula makes it.
struct MadeElement {
  double actual = 0, expected = 0, bound = 0;

  bool is_judged() const { return std::isfinite(expected) && std::isfinite(bound) && std::isfinite(actual); }
  bool fits() const { return std::fabs(actual - expected) <= bound; }
};

MadeElement made_element(double actual, const Rounded& expected) {
  return {.actual = actual, .expected = expected.value(), .bound = kOtherOrder * expected.error()};
}

/// Elements as the formula with a mistake makes them.
std::vector<MadeElement> made_by(const ElementRule& rule, const Sampled& sampled, const Mistake& mistake) {
  std::vector<MadeElement> made;
  for (std::size_t i = 0; i < sampled.elements.size(); ++i) {
    if (const auto weight = rule.weight(sampled.elements[i], mistake))
      made.push_back(made_element(sampled.weights[i], *weight));
  }
  return made;
}

bool all_fit(const std::vector<MadeElement>& made) {
  return !made.empty() &&
         std::all_of(made.begin(), made.end(), [](const MadeElement& one) { return one.is_judged() && one.fits(); });
}

/// A factor, and how far rounding may have moved it.
struct Factor {
  double value = 0, error = 0;
};

/// What is left over in each element, as a multiple of `of`; nothing if it is none.
std::optional<Factor> multiple(const std::vector<MadeElement>& made, const std::vector<double>& of) {
  std::size_t largest = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (std::fabs(of[i]) > std::fabs(of[largest])) largest = i;
  }
  if (of[largest] == 0) return std::nullopt;
  const Factor factor{.value = (made[largest].actual - made[largest].expected) / of[largest],
                      .error = made[largest].bound / std::fabs(of[largest])};
  for (std::size_t i = 0; i < made.size(); ++i) {
    const double rest = made[i].actual - made[i].expected - factor.value * of[i];
    if (std::fabs(rest) > made[i].bound + factor.error * std::fabs(of[i])) return std::nullopt;
  }
  return factor;
}

/// A mistake in the formula that makes the elements as they are.
struct Named {
  Mistake mistake;
  const char* cause;
  const char* evidence;
};

constexpr std::array<Named, 4> kMistakes = {{
    {{.steps_ahead = 1}, "opt.bias_correction", "a correction one update ahead fits"},
    {{.steps_ahead = -1}, "opt.bias_correction", "a correction one update behind fits"},
    {{.no_correction = true}, "opt.bias_correction", "an update without bias correction fits"},
    {{.eps_inside = true}, "opt.eps_inside_root", "a root of square + eps fits"},
}};

/// Decades of the numbers that people give eps.
constexpr int kSmallestEps = -16, kLargestEps = -2;

/// The formula with another eps makes the elements as they are.
std::optional<Explanation> other_eps(const ElementRule& rule, const Sampled& sampled) {
  for (int decade = kSmallestEps; decade <= kLargestEps; ++decade) {
    const double eps = std::pow(10, decade);
    if (eps != rule.eps() && all_fit(made_by(rule, sampled, {.eps = eps})))
      return Explanation{"opt.hyperparameter", "an eps of 1e" + std::to_string(decade) + " fits, " +
                                                   to_decimal(rule.eps()) + " is asked for"};
  }
  return std::nullopt;
}

/// The mistakes that make all sampled elements as they are; nothing where one element shows a mistake, or rounding may
/// hide one.
std::optional<std::vector<Explanation>> explanations_of_elements(const ElementRule& rule, const Sampled& sampled,
                                                                 const std::vector<MadeElement>& made) {
  const auto shows = std::count_if(made.begin(), made.end(), [](const MadeElement& one) { return !one.fits(); });
  const bool all = std::all_of(made.begin(), made.end(), [](const MadeElement& each) { return each.is_judged(); });
  if (shows < 2 || !all) return std::nullopt;
  std::vector<Explanation> found;
  for (const Named& known : kMistakes) {
    if (all_fit(made_by(rule, sampled, known.mistake))) found.push_back({known.cause, known.evidence});
  }
  if (const auto eps = other_eps(rule, sampled)) found.push_back(*eps);
  if (!found.empty()) return found;
  std::vector<double> before, steps;
  for (const Element& element : sampled.elements) {
    before.push_back(element.weight);
    steps.push_back(rule.weight(element, {.rate_factor = 2})->value() - rule.weight(element)->value());
  }
  for (const auto& [weights, which] : {std::pair(before, "before"), {sampled.weights, "after"}}) {
    if (const auto factor = multiple(made, weights))
      found.push_back({"opt.decay_scale",
                       rounded(factor->value, 3) + " of the weight " + which + " the update is added", factor->value,
                       factor->error, rule.rate()});
  }
  const auto factor = multiple(made, steps);
  const double decay = rule.rate() * rule.decoupled_decay();
  if (factor && decay != 0 && std::fabs(factor->value + decay) <= factor->error) {
    found.push_back({"opt.decay_scale", "the update decays, too: weights decay after it", factor->value, factor->error,
                     rule.rate()});
  } else if (factor) {
    found.push_back(
        {"opt.other_rate",
         rounded(1 + factor->value, 5) + " times the rate of the ledger, " + to_decimal(rule.rate()) + ", fits",
         factor->value, factor->error, rule.rate()});
  }
  return found;
}

bool keeps_formula(Outcome& outcome, Explanations& why, const ElementRule& rule, const Sampled& sampled,
                   const RecordPlace& place) {
  const std::vector<MadeElement> made = made_by(rule, sampled, {});
  for (const MadeElement& one : made) {
    if (!one.is_judged()) continue;
    ++outcome.judged;
    if (one.fits()) continue;
    outcome.broken = Breach{.at = place,
                            .expected = to_decimal(one.expected) + " in a sampled element",
                            .actual = to_decimal(one.actual) + "; rounding explains " + rounded(one.bound, 3)};
    why.narrow(explanations_of_elements(rule, sampled, made));
    return false;
  }
  return true;
}

/// Roundings of the direction's size in LAMB's update: two norms, a ratio and two products.
constexpr double kLambRoundings = 8;

/// Multiples of LAMB's direction that an element may have moved by.
struct Multiples {
  double least = 0, most = INFINITY;
  double largest = 0;  ///< direction of an element
  std::size_t judged = 0;
  bool can_be_told = true;

  bool are_one() const { return least <= most; }
};

Multiples multiples_of(const ElementRule& rule, const Sampled& sampled, const Mistake& mistake) {
  Multiples all;
  for (std::size_t i = 0; i < sampled.elements.size(); ++i) {
    const Element& element = sampled.elements[i];
    const auto direction = rule.direction(element, mistake);
    all.can_be_told = all.can_be_told && direction && std::isfinite(sampled.weights[i]);
    if (!all.can_be_told) return all;
    const double change = element.weight - sampled.weights[i];
    const double rounding = kOtherOrder * element.unit * (std::fabs(element.weight) + std::fabs(sampled.weights[i]));
    const double error =
        kOtherOrder * direction->error() + kLambRoundings * element.unit * std::fabs(direction->value());
    const double shortest = std::fabs(direction->value()) - error;
    if (!(shortest > 0)) continue;
    const double toward = direction->value() > 0 ? change : -change;
    ++all.judged;
    all.largest = std::max(all.largest, shortest);
    all.most = std::min(all.most, (toward + rounding) / shortest);
    const double reach = std::fabs(direction->value()) + error;
    all.least =
        std::max(all.least, toward - rounding > 0 ? (toward - rounding) / reach : (toward - rounding) / shortest);
  }
  return all;
}

/// Mistakes in LAMB's direction: those of Adam's, and a decay that is left out, of the other sign, or taken twice.
constexpr std::array<Named, 7> kMistakesOfLamb = {{
    kMistakes[0],
    kMistakes[1],
    kMistakes[2],
    kMistakes[3],
    {{.decay_factor = 0}, "opt.decay_scale", "a direction without decay fits"},
    {{.decay_factor = -1}, "opt.decay_scale", "a decay of the other sign fits"},
    {{.decay_factor = 2}, "opt.decay_scale", "a decay taken twice fits"},
}};

/// So many elements have a bucket each: their sketch is exact.
constexpr double kExactElements = trace::Sketch::kBuckets;

/// LAMB: one trust ratio for a whole parameter, which makes the update as long as rate · weight. Where a norm vanishes
/// or overflows in float32, the ratio is 1, zero or infinite.
bool keeps_lamb(Outcome& outcome, Explanations& why, const ElementRule& rule, const Sampled& sampled,
                const RecordPlace& place, const Updated& of) {
  const auto fail = [&](const std::string& expected, const std::string& actual, std::vector<Explanation> found) {
    outcome.broken = Breach{.at = place, .expected = expected, .actual = actual};
    why.narrow(std::move(found));
    return false;
  };
  const Multiples all = multiples_of(rule, sampled, {});
  if (!all.can_be_told) return true;
  outcome.judged += all.judged;
  if (!all.are_one()) {
    std::vector<Explanation> found;
    for (const Named& known : kMistakesOfLamb) {
      const Multiples with = multiples_of(rule, sampled, known.mistake);
      if (with.can_be_told && with.judged >= 2 && with.are_one()) found.push_back({known.cause, known.evidence});
    }
    return fail("one multiple of LAMB's direction",
                "an element moves by " + rounded(all.least, 5) + " of it, another by " + rounded(all.most, 5),
                std::move(found));
  }
  if (!of.weight->sketch || !of.weight_before->sketch || !has_norm(of.weight_before->sketch->norm)) return true;
  const double norm = of.weight_before->sketch->norm, expected = rule.rate() * norm,
               actual = estimated_distance(*of.weight->sketch, *of.weight_before->sketch),
               rounding = trace::unit_roundoff(of.weight->dtype) * norm;
  constexpr double kSurely = 2 * kSketchError;  // a sketch is hardly ever further off
  if (!of.gradient->norm || *of.gradient->norm == 0 || !has_norm(all.largest)) return true;
  ++outcome.judged;
  const double exact_bound =
      kOtherOrder * (rounding + kLambRoundings * roundoff_of(of.weight->dtype).value_or(1) * expected);
  if (count_of(*of.weight) <= kExactElements && std::fabs(actual - expected) > exact_bound)
    return fail(
        "an update as long as rate · weight, " + rounded(expected, 6), rounded(actual, 6),
        {{"opt.other_rate",
          rounded(actual / expected, 5) + " times the rate of the ledger, " + to_decimal(rule.rate()) + ", fits",
          actual / expected - 1, exact_bound / expected, rule.rate()}});
  if (actual <= kSurely * (expected + rounding) && actual + kSurely * rounding >= expected / kSurely) return true;
  return fail("an update as long as rate · weight, " + rounded(expected, 3), "about " + rounded(actual, 3), {});
}

}  // namespace

bool keeps_elements(Outcome& outcome, Explanations& why, const RecordPlace& place, const Updated& of) {
  const Sampled sampled = sampled_of(of);
  if (sampled.elements.empty() || !std::isfinite(of.rate)) return true;
  const ElementRule rule(of.optimizer.kind, of.options(), of.rate);
  return recipe::traits_of(of.optimizer.kind).form == recipe::UpdateForm::kTrustRatio
             ? keeps_lamb(outcome, why, rule, sampled, place, of)
             : keeps_formula(outcome, why, rule, sampled, place);
}

}  // namespace lockstep::laws
