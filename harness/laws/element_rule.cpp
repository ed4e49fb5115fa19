#include "harness/laws/element_rule.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace lockstep::laws {
namespace {

/// A capturable optimizer takes powers in float32, as rounded operations.
constexpr double kPowerRoundings = 4;

constexpr std::array<std::string_view, 6> kKinds = {"adam", "adamw", "adamax", "rmsprop", "lamb", "adagrad"};

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
Rounded after(const Element& element, std::string_view state) { return {*element.after.find(state), element.unit}; }

/// torch.lerp, which moving averages use.
Rounded lerp(const Rounded& from, const Rounded& to, double weight) {
  return from + coefficient(weight, from.unit()) * (to - from);
}

Rounded moving_square(const Rounded& square, const Rounded& gradient, double keep) {
  return square * coefficient(keep, square.unit()) + coefficient(1 - keep, square.unit()) * gradient * gradient;
}

}  // namespace

/// *Source*: torch.optim.Adam, AdamW, Adamax, RMSprop and Adagrad, PyTorch 2.11; LAMB: You et al. 2020, algorithm 2.
ElementRule::ElementRule(std::string kind, const Json& options, double rate)
    : kind_(std::move(kind)),
      rate_(rate),
      beta1_(beta(options, 0)),
      beta2_(beta(options, 1)),
      eps_(number(options, "eps", 0)),
      decay_(number(options, "weight_decay", 0)),
      alpha_(number(options, "alpha", 0)),
      momentum_(number(options, "momentum", 0)),
      rate_decay_(number(options, "lr_decay", 0)),
      decoupled_(kind_ == "adamw" || kind_ == "lamb" || flag(options, "decoupled_weight_decay")),
      amsgrad_(flag(options, "amsgrad")),
      centered_(flag(options, "centered")),
      maximize_(flag(options, "maximize")),
      capturable_(flag(options, "capturable")) {}

bool ElementRule::knows(const std::string& kind) {
  return std::find(kKinds.begin(), kKinds.end(), kind) != kKinds.end();
}

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
  if (kind_ == "rmsprop") {
    add("square_avg", moving_square(was("square_avg"), gradient, alpha_));
    add("grad_avg", lerp(was("grad_avg"), gradient, 1 - alpha_));
    if (const auto root = root_of(element, {}); root && momentum_ != 0)
      add("momentum_buffer", was("momentum_buffer") * coefficient(momentum_, element.unit) + gradient / *root);
  } else if (kind_ == "adagrad") {
    add("sum", was("sum") + gradient * gradient);
  } else {
    add("exp_avg", lerp(was("exp_avg"), gradient, 1 - beta1_));
    add("exp_avg_sq", moving_square(was("exp_avg_sq"), gradient, beta2_));
    if (element.has("exp_avg_sq")) add("max_exp_avg_sq", max(was("max_exp_avg_sq"), after(element, "exp_avg_sq")));
    add("exp_inf",
        max(was("exp_inf") * coefficient(beta2_, element.unit), abs(gradient) + coefficient(eps_, element.unit)));
  }
  return made;
}

/// The divisor of an update.
std::optional<Rounded> ElementRule::root_of(const Element& element, const Mistake& mistake) const {
  const double unit = element.unit;
  if (kind_ == "adamax") return element.has("exp_inf") ? std::optional(after(element, "exp_inf")) : std::nullopt;
  const char* square = kind_ == "rmsprop"                          ? "square_avg"
                       : kind_ == "adagrad"                        ? "sum"
                       : amsgrad_ && element.has("max_exp_avg_sq") ? "max_exp_avg_sq"
                                                                   : "exp_avg_sq";
  if (!element.has(square) || (centered_ && !element.has("grad_avg"))) return std::nullopt;
  Rounded of = after(element, square);
  if (centered_) of = of - after(element, "grad_avg") * after(element, "grad_avg");
  const Rounded eps = coefficient(mistake.eps.value_or(eps_), unit);
  const bool corrects = beta2_ != 0 && kind_ != "rmsprop" && kind_ != "adagrad" && !mistake.no_correction;
  if (corrects) {
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
  if (!root || kind_ == "lamb") return std::nullopt;
  double size = rate_ * mistake.rate_factor, slack = 0;
  std::optional<Rounded> top;
  if (kind_ == "rmsprop" && momentum_ != 0) {
    if (!element.has("momentum_buffer")) return std::nullopt;
    const Rounded step = coefficient(size, unit) * after(element, "momentum_buffer");
    return Rounded(element.weight, unit) - step;
  }
  if (kind_ == "rmsprop") {
    top = gradient_of(element);
  } else if (kind_ == "adagrad") {
    top = gradient_of(element);
    size /= 1 + (element.step - 1) * rate_decay_;
  } else if (element.has("exp_avg")) {
    top = after(element, "exp_avg");
    const double power = std::pow(beta1_, element.step + mistake.steps_ahead);
    if (!mistake.no_correction) size /= 1 - power;
    if (capturable_) slack = kPowerRoundings * unit / (1 - power);
  }
  if (!top) return std::nullopt;
  Rounded weight(element.weight, unit);
  if (decoupled_ && decay_ != 0) weight = weight * coefficient(1 - rate_ * mistake.rate_factor * decay_, unit);
  return weight - Rounded(size, unit, (unit + slack) * std::fabs(size)) * (*top / *root);
}

}  // namespace lockstep::laws
