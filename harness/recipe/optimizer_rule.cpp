#include "harness/recipe/optimizer_rule.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace lockstep::recipe {
namespace {

using Formula = FormulaWrongFormula;

/// A capturable optimizer takes powers in float32, as rounded operations.
constexpr double kPowerRoundings = 4;

bool flag(const Json& options, const char* name) { return options.value(name, Json(false)) == Json(true); }

double number(const Json& options, const char* name, double otherwise) {
  return options.contains(name) ? options.at(name).get<double>() : otherwise;
}

double beta(const Json& options, std::size_t index) {
  return options.contains("betas") ? options.at("betas").at(index).get<double>() : 0;
}

Rounded before(const Element& element, std::string_view state) {
  const double* found = element.before.find(state);
  return {found == nullptr ? 0.0 : *found, element.unit};
}

/// A state that it has.
Rounded after(const Element& element, std::string_view state) {
  if (const double* found = element.after.find(state)) return {*found, element.unit};
  throw InternalError({.what = "an element lacks a state of its optimizer", .where = std::string(state)});
}

/// torch.lerp, which moving averages use.
Rounded lerp(const Rounded& from, const Rounded& to, double weight) {
  return from + coefficient(weight, from.unit()) * (to - from);
}

Rounded moving_square(const Rounded& square, const Rounded& gradient, double keep) {
  return square * coefficient(keep, square.unit()) + coefficient(1 - keep, square.unit()) * gradient * gradient;
}

}  // namespace

const OptimizerTraits& traits_of(OptimizerKind kind) {
  static const OptimizerTraits kNone;
  static const OptimizerTraits kSgd{.form = UpdateForm::kLinear,
                                    .states = {{"momentum_buffer", "momentum"}},
                                    .planted_formulas = {Formula::kMomentumTwice, Formula::kMomentumUnused}};
  static const OptimizerTraits kAdam{
      .form = UpdateForm::kElements,
      .is_scale_free = true,
      .states = {{"exp_avg"}, {"exp_avg_sq"}, {"max_exp_avg_sq", "amsgrad"}},
      .square = "exp_avg_sq",
      .square_keep = "/betas/1",
      .corrects_square = true,
      .planted_formulas = {Formula::kEpsInsideRoot, Formula::kNoRoot, Formula::kEpsBeforeCorrection,
                           Formula::kNotAveraged, Formula::kMaxLeftOut}};
  static const OptimizerTraits kAdamw = [] {
    OptimizerTraits adamw = kAdam;
    adamw.decouples_decay = true;
    return adamw;
  }();
  static const OptimizerTraits kAdamax{.form = UpdateForm::kElements,
                                       .is_scale_free = true,
                                       .states = {{"exp_avg"}, {"exp_inf"}},
                                       .square = "exp_inf",
                                       .square_keep = "/betas/1",
                                       .planted_formulas = {Formula::kNotAveraged}};
  static const OptimizerTraits kRmsprop{
      .form = UpdateForm::kElements,
      .is_scale_free = true,
      .states = {{"square_avg"}, {"grad_avg", "centered"}, {"momentum_buffer", "momentum"}},
      .square = "square_avg",
      .square_keep = "/alpha",
      .planted_formulas = {Formula::kEpsInsideRoot, Formula::kNoRoot}};
  static const OptimizerTraits kLamb{
      .form = UpdateForm::kTrustRatio,
      .is_scale_free = true,
      .decouples_decay = true,
      .states = {{"exp_avg"}, {"exp_avg_sq"}},
      .square = "exp_avg_sq",
      .square_keep = "/betas/1",
      .corrects_square = true,
      .planted_formulas = {Formula::kEpsInsideRoot, Formula::kNoRoot, Formula::kNotAveraged, Formula::kTrustLeftOut,
                           Formula::kTrustInverted}};
  static const OptimizerTraits kAdagrad{.form = UpdateForm::kElements, .is_scale_free = true, .states = {{"sum"}}};
  switch (kind) {
    case OptimizerKind::kSgd:
      return kSgd;
    case OptimizerKind::kAdam:
      return kAdam;
    case OptimizerKind::kAdamw:
      return kAdamw;
    case OptimizerKind::kAdamax:
      return kAdamax;
    case OptimizerKind::kRmsprop:
      return kRmsprop;
    case OptimizerKind::kLamb:
      return kLamb;
    case OptimizerKind::kAdagrad:
      return kAdagrad;
    case OptimizerKind::kUnknown:
      break;
  }
  return kNone;
}

std::vector<KeptState> kept_states(OptimizerKind kind, const Json& options) {
  std::vector<KeptState> kept = traits_of(kind).states;
  std::erase_if(kept, [&](const KeptState& one) {
    const Json asked = one.option == nullptr ? Json(true) : options.value(one.option, Json(false));
    return asked == Json(false) || asked == Json(0);
  });
  return kept;
}

bool couples_decay(OptimizerKind kind, const Json& options) {
  return !traits_of(kind).decouples_decay && !flag(options, "decoupled_weight_decay");
}

std::optional<MovingAverage> average_of(OptimizerKind kind, const Json& options) {
  const auto average = [](std::string_view state, double keep) {
    return MovingAverage{.state = state, .keep = keep, .take = 1 - keep, .take_first = 1 - keep};
  };
  switch (kind) {
    case OptimizerKind::kSgd:
      if (options.value("momentum", Json(0)) == Json(0.0)) return std::nullopt;
      return MovingAverage{.state = "momentum_buffer",
                           .keep = options.value("momentum", 0.0),
                           .take = 1 - options.value("dampening", 0.0)};
    case OptimizerKind::kRmsprop:
      if (!flag(options, "centered")) return std::nullopt;
      return average("grad_avg", options.at("alpha").get<double>());
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamw:
    case OptimizerKind::kAdamax:
    case OptimizerKind::kLamb:
      return average("exp_avg", options.at("betas").at(0).get<double>());
    case OptimizerKind::kAdagrad:
    case OptimizerKind::kUnknown:
      break;
  }
  return std::nullopt;
}

ElementRule::ElementRule(OptimizerKind kind, const Json& options, double rate)
    : kind_(kind),
      rate_(rate),
      beta1_(beta(options, 0)),
      beta2_(beta(options, 1)),
      eps_(number(options, "eps", 0)),
      decay_(number(options, "weight_decay", 0)),
      alpha_(number(options, "alpha", 0)),
      momentum_(number(options, "momentum", 0)),
      rate_decay_(number(options, "lr_decay", 0)),
      decoupled_(!couples_decay(kind, options)),
      amsgrad_(flag(options, "amsgrad")),
      centered_(flag(options, "centered")),
      maximize_(flag(options, "maximize")),
      capturable_(flag(options, "capturable")) {}

Rounded ElementRule::gradient_of(const Element& element) const {
  const Rounded gradient(maximize_ ? -element.gradient : element.gradient, element.unit);
  if (decay_ == 0 || decoupled_) return gradient;
  return gradient + coefficient(decay_, element.unit) * Rounded(element.weight, element.unit);
}

States<Rounded> ElementRule::states(const Element& element) const {
  const Rounded gradient = gradient_of(element);
  States<Rounded> made;
  const auto add = [&](const char* name, const Rounded& value) {
    if (element.has(name)) made.set(name, value);
  };
  const auto was = [&](const char* name) { return before(element, name); };
  switch (kind_) {
    case OptimizerKind::kRmsprop:
      add("square_avg", moving_square(was("square_avg"), gradient, alpha_));
      add("grad_avg", lerp(was("grad_avg"), gradient, 1 - alpha_));
      if (const auto root = root_of(element, {}); root && momentum_ != 0)
        add("momentum_buffer", was("momentum_buffer") * coefficient(momentum_, element.unit) + gradient / *root);
      break;
    case OptimizerKind::kAdagrad:
      add("sum", was("sum") + gradient * gradient);
      break;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamw:
    case OptimizerKind::kAdamax:
    case OptimizerKind::kLamb:
      add("exp_avg", lerp(was("exp_avg"), gradient, 1 - beta1_));
      add("exp_avg_sq", moving_square(was("exp_avg_sq"), gradient, beta2_));
      if (element.has("exp_avg_sq")) add("max_exp_avg_sq", max(was("max_exp_avg_sq"), after(element, "exp_avg_sq")));
      add("exp_inf",
          max(was("exp_inf") * coefficient(beta2_, element.unit), abs(gradient) + coefficient(eps_, element.unit)));
      break;
    case OptimizerKind::kSgd:
    case OptimizerKind::kUnknown:
      break;
  }
  return made;
}

/// The divisor of an update.
std::optional<Rounded> ElementRule::root_of(const Element& element, const Mistake& mistake) const {
  const double unit = element.unit;
  const std::string_view state = traits_of(kind_).square;
  if (kind_ == OptimizerKind::kAdamax) return element.has(state) ? std::optional(after(element, state)) : std::nullopt;
  const std::string_view square = kind_ == OptimizerKind::kAdagrad            ? "sum"
                                  : amsgrad_ && element.has("max_exp_avg_sq") ? "max_exp_avg_sq"
                                                                              : state;
  if (!element.has(square) || (centered_ && !element.has("grad_avg"))) return std::nullopt;
  Rounded of = after(element, square);
  if (centered_) of = of - after(element, "grad_avg") * after(element, "grad_avg");
  const Rounded eps = coefficient(mistake.eps.value_or(eps_), unit);
  if (traits_of(kind_).corrects_square && beta2_ != 0 && !mistake.no_correction) {
    const double power = std::pow(beta2_, element.step + mistake.steps_ahead);
    of = of / Rounded(1 - power, unit, unit * (1 - power) + (capturable_ ? kPowerRoundings * unit : 0));
  }
  return mistake.eps_inside ? sqrt(of + eps) : sqrt(of) + eps;
}

std::optional<Rounded> ElementRule::direction(const Element& element, const Mistake& mistake) const {
  const auto root = root_of(element, mistake);
  if (!root || !element.has("exp_avg")) return std::nullopt;
  const double correction = mistake.no_correction ? 1 : 1 - std::pow(beta1_, element.step + mistake.steps_ahead);
  const Rounded adam = after(element, "exp_avg") / coefficient(correction, element.unit) / *root;
  const double decay = decay_ * mistake.decay_factor;
  if (decay == 0) return adam;
  return adam + coefficient(decay, element.unit) * Rounded(element.weight, element.unit);
}

std::optional<Rounded> ElementRule::weight(const Element& element, const Mistake& mistake) const {
  const double unit = element.unit;
  const auto root = root_of(element, mistake);
  if (!root) return std::nullopt;
  double size = rate_ * mistake.rate_factor, slack = 0;
  std::optional<Rounded> top;
  switch (kind_) {
    case OptimizerKind::kRmsprop:
      if (momentum_ != 0) {
        if (!element.has("momentum_buffer")) return std::nullopt;
        return Rounded(element.weight, unit) - coefficient(size, unit) * after(element, "momentum_buffer");
      }
      top = gradient_of(element);
      break;
    case OptimizerKind::kAdagrad:
      top = gradient_of(element);
      size /= 1 + (element.step - 1) * rate_decay_;
      break;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamw:
    case OptimizerKind::kAdamax: {
      if (!element.has("exp_avg")) return std::nullopt;
      top = after(element, "exp_avg");
      const double power = std::pow(beta1_, element.step + mistake.steps_ahead);
      if (!mistake.no_correction) size /= 1 - power;
      if (capturable_) slack = kPowerRoundings * unit / (1 - power);
      break;
    }
    case OptimizerKind::kLamb:  // of which the trust ratio is left over
    case OptimizerKind::kSgd:   // a sum: laws judge its sketches
    case OptimizerKind::kUnknown:
      return std::nullopt;
  }
  Rounded weight(element.weight, unit);
  if (decoupled_ && decay_ != 0) weight = weight * coefficient(1 - rate_ * mistake.rate_factor * decay_, unit);
  return weight - Rounded(size, unit, (unit + slack) * std::fabs(size)) * (*top / *root);
}

}  // namespace lockstep::recipe
