#include "harness/laws/state_causes.h"

#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/own_gradients.h"

namespace lockstep::laws {
namespace {

using Found = std::vector<Explanation>;

bool is_zero(const trace::Record* record) { return record == nullptr || (record->norm && *record->norm == 0); }

/// The whole update is left out: neither state nor weight moves.
std::optional<Explanation> no_update(std::string_view state, const Updated& of) {
  const trace::Record *now = of.state(std::string(state)), *before = of.state_before(std::string(state));
  const bool stands = is_zero(before) ? is_zero(now) : trace::same_bits(now, before);
  if (!stands || of.weight == nullptr || !trace::same_bits(of.weight, of.weight_before)) return std::nullopt;
  if (!of.gradient->norm || !(*of.gradient->norm > 0)) return std::nullopt;
  return Explanation{"opt.no_effect", "neither the weight nor its state moves, with a gradient of norm " +
                                          rounded(*of.gradient->norm, 3)};
}

/// What is left over of a state, as a multiple of `of`; nothing where rounding does not explain the rest.
std::optional<double> multiple(const trace::Sketch& of, const trace::Sketch& left_over, double bound) {
  const auto scale = trace::scale_between(of, left_over);
  const bool fits = scale && scale->residual * left_over.norm <= kOtherOrder * bound;
  return fits ? std::optional(scale->factor) : std::nullopt;
}

Explanation other_option(const std::string& what, double found, double asked) {
  return {"opt.hyperparameter", rounded(found, 5) + " of the " + what + " fits, " + rounded(asked, 5) + " is asked for",
          found, kFactorFits * std::fabs(found)};
}

/// A mistake of a coupled decay.
struct OtherDecay {
  double times;
  const char* what;
};

constexpr OtherDecay kDecays[] = {
    {0, "without decay"}, {-1, "with a decay of the other sign"}, {2, "with twice the decay"}};

bool is_coupled(const Updated& of) { return recipe::couples_decay(of.optimizer.kind, of.options()); }

/// Whether a rule makes the state of all sampled elements as they are; `one`: only this element.
bool fits(const ElementRule& rule, std::string_view state, const Element& element) {
  const auto made = rule.states(element);
  const Rounded* expected = made.find(state);
  const double* actual = element.after.find(state);
  return expected != nullptr && actual != nullptr && std::isfinite(expected->error()) &&
         std::fabs(*actual - expected->value()) <= kOtherOrder * expected->error();
}

bool fits_all(const Updated& of, const Json& options, std::string_view state, const Sampled& sampled) {
  const ElementRule rule(of.optimizer.kind, options, of.rate);
  return std::all_of(sampled.elements.begin(), sampled.elements.end(),
                     [&](const Element& element) { return fits(rule, state, element); });
}

/// Options with another share of a moving square; nothing for a state that is none.
std::optional<Json> with_keep(const Updated& of, std::string_view state, double keep) {
  const recipe::OptimizerTraits& traits = recipe::traits_of(of.optimizer.kind);
  if (traits.square_keep == nullptr || state != traits.square) return std::nullopt;
  const Json::json_pointer share(traits.square_keep);
  Json options = of.options();
  if (!options.contains(share)) return std::nullopt;
  options[share] = keep;
  return options;
}

double keep_of(const Updated& of) {
  return of.options().at(Json::json_pointer(recipe::traits_of(of.optimizer.kind).square_keep)).get<double>();
}

/// People write hyperparameters in so many decimals.
constexpr double kDecimals = 1e6;

/// Shares that the moving square may have, by the element that tells most: state = keep · before + (1 - keep) · g².
std::vector<double> keeps_by_elements(const Updated& of, std::string_view state, const Sampled& sampled) {
  const double keep = keep_of(of);
  const ElementRule rule(of.optimizer.kind, of.options(), of.rate);
  double moved = 0, most = 0;
  for (const Element& element : sampled.elements) {
    const double* before = element.before.find(state);
    const double was = before == nullptr ? 0 : *before;
    const auto made = rule.states(element);
    const Rounded* expected = made.find(state);
    if (expected == nullptr || !(keep < 1)) continue;
    const double apart = (expected->value() - was) / (1 - keep);  // g² - before
    if (std::fabs(apart) <= std::fabs(most)) continue;
    most = apart;
    moved = *element.after.find(state) - was;
  }
  if (most == 0) return {};
  return {std::round((1 - moved / most) * kDecimals) / kDecimals};
}

}  // namespace

/// One hyperparameter is another one: each leaves a multiple of one tensor.
std::optional<Found> explanations_of(const Rule& rule, const Updated& of) {
  if (const auto none = no_update(linear_state(of.optimizer), of)) return Found{*none};
  const auto sketch_of = [](const trace::Record* record) { return is_zero(record) ? nullptr : &*record->sketch; };
  const trace::Sketch *state = &*rule.target->sketch, *before = sketch_of(rule.terms[0].second),
                      *gradient = sketch_of(rule.terms[1].second);
  const double keep = rule.terms[0].first, take = rule.terms[1].first;
  if (gradient == nullptr || !(take > 0)) return std::nullopt;
  const bool decays = rule.terms.size() > 2;
  const trace::Sketch decayed = sum_of(
      {{1, gradient}, {decays ? rule.terms[2].first / take : 0, decays ? sketch_of(rule.terms[2].second) : nullptr}});
  const trace::Sketch left_over = sum_of({{1, state}, {-keep, before}, {-take, &decayed}});
  const double bound = distance_of(rule)->bound;
  Found found;
  if (of.weight_before != nullptr && of.weight_before->sketch) {
    if (const auto more = multiple(*of.weight_before->sketch, left_over, bound))
      found.push_back({"opt.decay_scale", rounded(*more / take, 3) + " of the weight is added beyond the decay",
                       *more / take, kFactorFits * std::fabs(*more / take)});
  }
  if (recipe::traits_of(of.optimizer.kind).form != recipe::UpdateForm::kLinear) {
    const auto taken = multiple(sum_of({{1, &decayed}, {-1, before}}), sum_of({{1, state}, {-1, before}}), bound);
    if (taken && *taken > 0 && *taken < 1 + kFits) found.push_back(other_option("gradient", *taken, take));
  } else if (before != nullptr) {
    const auto kept = multiple(*before, sum_of({{1, state}, {-take, &decayed}}), bound);
    if (kept && *kept >= 0 && *kept < 1) found.push_back(other_option("momentum before", *kept, keep));
    const auto taken = multiple(decayed, sum_of({{1, state}, {-keep, before}}), bound);
    if (taken && *taken > 0 && *taken < 1 + kFits) found.push_back(other_option("gradient", *taken, take));
  }
  return found;
}

std::optional<Found> explanations_of(std::string_view state, const Sampled& sampled, const Updated& of) {
  if (const auto none = no_update(state, of)) return Found{*none};
  const ElementRule rule(of.optimizer.kind, of.options(), of.rate);
  const auto shows = std::count_if(sampled.elements.begin(), sampled.elements.end(),
                                   [&](const Element& element) { return !fits(rule, state, element); });
  if (shows < 2) return std::nullopt;
  Found found;
  const double decay = of.options().value("weight_decay", 0.0);
  for (const auto& [times, what] : kDecays) {
    Json options = of.options();
    options["weight_decay"] = times * decay;
    if (decay == 0 || !is_coupled(of) || !fits_all(of, options, state, sampled)) continue;
    found.push_back({"opt.decay_scale", std::string("the state follows its formula ") + what, times});
  }
  if (!with_keep(of, state, 0)) return found;
  std::vector<double> keeps = keeps_by_elements(of, state, sampled);
  if (of.options().contains("betas")) keeps.push_back(of.options().at("betas").at(0).get<double>());
  for (const double keep : keeps) {
    if (!(keep >= 0 && keep < 1) || keep == keep_of(of)) continue;
    if (!fits_all(of, *with_keep(of, state, keep), state, sampled)) continue;
    found.push_back({"opt.hyperparameter",
                     to_decimal(keep) + " of the " + std::string(state) + " before fits, " + to_decimal(keep_of(of)) +
                         " is asked for",
                     keep, 1 / kDecimals});
    break;
  }
  return found;
}

void StateCauses::name(Breach& breach) const {
  std::optional<Breach> first;
  for (const auto& [state, explanations] : by_state_) {
    Breach of_state;
    explanations.name(of_state);
    if (of_state.cause.empty() || (first && first->cause != of_state.cause)) return;
    if (!first) first = of_state;
  }
  if (!first) return;
  breach.cause = first->cause;
  breach.relation = breach.evidence = first->evidence;
}

}  // namespace lockstep::laws
