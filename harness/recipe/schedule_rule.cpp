#include "harness/recipe/schedule_rule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace lockstep::recipe {
namespace {

constexpr double kUlp = 0x1p-52;

/// Rounding of rule and closed form: a product each, and pow below one unit in the last place (glibc manual 19.7).
constexpr double kFew = 8;

/// A step of a rule that multiplies the last rate rounds so often more: linear warm-up, and cosine.
constexpr double kWarmupStep = 4, kCosineStep = 8;

/// ReduceLROnPlateau leaves the rate where it would change by no more (its default `eps`).
constexpr double kLeastChange = 1e-8;

struct StepsTaken {
  const Json& options;
  double base = 0;
  std::int64_t count = 0;

  double real(const char* key) const { return options.at(key).get<double>(); }
  std::int64_t integer(const char* key) const { return options.at(key).get<std::int64_t>(); }
};

ExpectedRate within(double rate, double roundings) {
  return {.rate = rate, .rounding = (kFew + roundings) * kUlp * std::fabs(rate)};
}

ExpectedRate decayed(const StepsTaken& at, double rate, std::int64_t times) {
  return within(rate * std::pow(at.real("gamma"), static_cast<double>(times)), static_cast<double>(times));
}

std::int64_t milestones_passed(const StepsTaken& at) {
  const auto milestones = at.options.at("milestones").get<std::vector<std::int64_t>>();
  return std::count_if(milestones.begin(), milestones.end(), [&](std::int64_t m) { return m <= at.count; });
}

/// From `factor` to 1 over the warm-up.
double warmup_at(const StepsTaken& at) {
  const double done = std::min(1.0, static_cast<double>(at.count) / at.real("warmup"));
  return at.real("factor") + (1 - at.real("factor")) * done;
}

ExpectedRate linear_warmup(const StepsTaken& at) {
  return within(at.base * warmup_at(at), kWarmupStep * static_cast<double>(std::min(at.count, at.integer("warmup"))));
}

ExpectedRate cosine(const StepsTaken& at) {
  const double phase = std::numbers::pi * static_cast<double>(at.count) / at.real("period");
  const double above = at.base - at.real("least");
  // Where 1 + cos cancels, what remains of the rounding is absolute.
  return {
      .rate = at.real("least") + above * (1 + std::cos(phase)) / 2,
      .rounding = (kFew + kCosineStep * static_cast<double>(at.count)) * kUlp * std::max(at.base, at.real("least"))};
}

ExpectedRate warmup_cosine(const StepsTaken& at) {
  if (at.count < at.integer("warmup")) return within(at.base * warmup_at(at), 0);
  const double phase = std::numbers::pi * static_cast<double>(at.count) / at.real("period");
  return {.rate = at.base * (1 + std::cos(phase)) / 2, .rounding = kFew * (1 + phase) * kUlp * at.base};
}

ExpectedRate inverse_sqrt(const StepsTaken& at) {
  const double warmups = static_cast<double>(at.count) / at.real("warmup");
  return within(at.base * (warmups < 1 ? warmups : 1 / std::sqrt(warmups)), 0);
}

/// Part of a phase's way, from 0 to 1. `x`: part of its steps.
double way_done(const Json& phase, double x) {
  switch (kind_at<Curve>(phase, "curve")) {
    case Curve::kCosine:
      return (1 - std::cos(std::numbers::pi * x)) / 2;
    case Curve::kPolynomial:
      return 1 - std::pow(1 - x, phase.at("power").get<double>());
    case Curve::kSqrt:
      return std::sqrt(x);
    case Curve::kLinear:
    case Curve::kExponential:  // of which the caller takes care
    case Curve::kUnknown:
      break;
  }
  return x;
}

ExpectedRate phases(const StepsTaken& at) {
  double left = static_cast<double>(at.count), from = 1, largest = 0, share = 0;
  for (const Json& phase : at.options.at("phases")) {
    const double steps = phase.at("steps").get<double>(), to = phase.at("to").get<double>();
    from = phase.value("from", from);
    largest = std::max({largest, from, to});
    const bool is_exponential = kind_at<Curve>(phase, "curve") == Curve::kExponential;
    if (left < steps) {
      const double x = left / steps;
      share = is_exponential ? from * std::pow(to / from, x) : from + (to - from) * way_done(phase, x);
      break;
    }
    left -= steps;
    share = from = to;
  }
  // A program may follow a rule that goes on from the last rate; where its terms cancel, what remains is absolute.
  return {.rate = at.base * share,
          .rounding = (kFew + kCosineStep * static_cast<double>(at.count)) * kUlp * at.base * largest};
}

ExpectedRate rate_listed(const StepsTaken& at) {
  const Json& rates = at.options.at("rates");
  return within(rates.at(std::min(static_cast<std::size_t>(at.count), rates.size() - 1)).get<double>(), 0);
}

/// The product of factors. Past its end a cosine adds to the rate, and is none.
std::optional<ExpectedRate> chained(const StepsTaken& at) {
  ExpectedRate product = within(at.base, 0);
  double relative = product.rounding / at.base;
  for (const Json& one : at.options.at("of")) {
    const auto factor = choice_from<ScheduleKind>(one);
    if (factor.kind == ScheduleKind::kCosine && at.count > one.at("period").get<std::int64_t>()) return std::nullopt;
    const auto share = ScheduleForm(factor, 1).after(at.count, {});
    if (!share) return std::nullopt;
    product.rate *= share->rate;
    relative += share->rounding;
  }
  product.rounding = relative * at.base;
  return product;
}

}  // namespace

ScheduleForm::ScheduleForm(const ScheduleChoice& schedule, double base)
    : schedule_(schedule), base_(base), plateau_{.rate = base, .best = std::numeric_limits<double>::infinity()} {}

/// The rule of ReduceLROnPlateau, told on from the losses that it has not seen yet.
std::optional<ExpectedRate> ScheduleForm::plateau(std::int64_t steps, const std::vector<double>& losses) {
  if (static_cast<std::int64_t>(losses.size()) < steps) return std::nullopt;
  const StepsTaken of{schedule_.options, base_, steps};
  const double threshold = of.real("threshold"), factor = of.real("factor"), least = of.real("least");
  const std::int64_t patience = of.integer("patience"), cooldown = of.integer("cooldown");
  Plateau& at = plateau_;
  for (; at.seen < steps; ++at.seen) {
    const double loss = losses[static_cast<std::size_t>(at.seen)];
    const bool better = loss < at.best * (1 - threshold);
    if (better) at.best = loss;
    at.bad = better || at.cooling > 0 ? 0 : at.bad + 1;
    at.cooling = std::max<std::int64_t>(at.cooling - 1, 0);
    if (at.bad <= patience) continue;
    const double reduced = std::max(at.rate * factor, least);
    if (at.rate - reduced > kLeastChange) at.rate = reduced;
    ++at.reductions;
    at.bad = 0;
    at.cooling = cooldown;
  }
  return within(at.rate, static_cast<double>(at.reductions));
}

std::optional<ExpectedRate> ScheduleForm::after(std::int64_t steps, const std::vector<double>& losses) {
  const StepsTaken at{schedule_.options, base_, steps};
  switch (schedule_.kind) {
    case ScheduleKind::kConstant:
      return within(base_, 0);
    case ScheduleKind::kStep:
      return decayed(at, base_, steps / at.integer("every"));
    case ScheduleKind::kMultistep:
      return decayed(at, base_, milestones_passed(at));
    case ScheduleKind::kWarmupMultistep:
      return decayed(at, base_ * warmup_at(at), milestones_passed(at));
    case ScheduleKind::kLinearWarmup:
      return linear_warmup(at);
    case ScheduleKind::kCosine:
      return cosine(at);
    case ScheduleKind::kWarmupCosine:
      return warmup_cosine(at);
    case ScheduleKind::kInverseSqrt:
      return inverse_sqrt(at);
    case ScheduleKind::kPlateau:
      return plateau(steps, losses);
    case ScheduleKind::kPhases:
      return phases(at);
    case ScheduleKind::kRates:
      return rate_listed(at);
    case ScheduleKind::kChained:
      return chained(at);
    case ScheduleKind::kUnknown:
      break;
  }
  return std::nullopt;
}

}  // namespace lockstep::recipe
