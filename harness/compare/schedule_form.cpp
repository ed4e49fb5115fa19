#include "harness/compare/schedule_form.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace lockstep::compare {
namespace {

constexpr double kUlp = 0x1p-52;

/// Rounding of rule and closed form: a product each, and pow below one unit in the last place (glibc manual 19.7).
constexpr double kFew = 8;

struct Steps {
  const Json& options;
  double base = 0;
  std::int64_t count = 0;

  double real(const char* key) const { return options.at(key).get<double>(); }
  std::int64_t integer(const char* key) const { return options.at(key).get<std::int64_t>(); }
};

ExpectedRate within(double rate, double roundings) {
  return {.rate = rate, .rounding = (kFew + roundings) * kUlp * std::fabs(rate)};
}

ExpectedRate decayed(const Steps& at, double rate, std::int64_t times) {
  return within(rate * std::pow(at.real("gamma"), static_cast<double>(times)), static_cast<double>(times));
}

std::int64_t milestones_passed(const Steps& at) {
  const auto milestones = at.options.at("milestones").get<std::vector<std::int64_t>>();
  return std::count_if(milestones.begin(), milestones.end(), [&](std::int64_t m) { return m <= at.count; });
}

/// From `factor` to 1 over the warm-up.
double warmup_at(const Steps& at) {
  const double done = std::min(1.0, static_cast<double>(at.count) / at.real("warmup"));
  return at.real("factor") + (1 - at.real("factor")) * done;
}

ExpectedRate linear_warmup(const Steps& at) {
  return within(at.base * warmup_at(at), 4 * static_cast<double>(std::min(at.count, at.integer("warmup"))));
}

ExpectedRate cosine(const Steps& at) {
  const double phase = std::numbers::pi * static_cast<double>(at.count) / at.real("period");
  const double above = at.base - at.real("least");
  // Where 1 + cos cancels, what remains of the rounding is absolute.
  return {.rate = at.real("least") + above * (1 + std::cos(phase)) / 2,
          .rounding = (kFew + 8 * static_cast<double>(at.count)) * kUlp * std::max(at.base, at.real("least"))};
}

ExpectedRate inverse_sqrt(const Steps& at) {
  const double warmups = static_cast<double>(at.count) / at.real("warmup");
  return within(at.base * (warmups < 1 ? warmups : 1 / std::sqrt(warmups)), 0);
}

/// The rule of ReduceLROnPlateau, told over again from the losses.
std::optional<ExpectedRate> plateau(const Steps& at, const std::vector<double>& losses) {
  if (static_cast<std::int64_t>(losses.size()) < at.count) return std::nullopt;
  double rate = at.base, best = std::numeric_limits<double>::infinity();
  std::int64_t bad = 0, cooling = 0, reductions = 0;
  for (std::int64_t i = 0; i < at.count; ++i) {
    const double loss = losses[static_cast<std::size_t>(i)];
    const bool better = loss < best * (1 - at.real("threshold"));
    if (better) best = loss;
    bad = better || cooling > 0 ? 0 : bad + 1;
    cooling = std::max<std::int64_t>(cooling - 1, 0);
    if (bad <= at.integer("patience")) continue;
    const double reduced = std::max(rate * at.real("factor"), at.real("least"));
    if (rate - reduced > 1e-8) rate = reduced;
    ++reductions;
    bad = 0;
    cooling = at.integer("cooldown");
  }
  return within(rate, static_cast<double>(reductions));
}

}  // namespace

std::optional<ExpectedRate> expected_rate(const scenario::Choice& schedule, double base, std::int64_t steps,
                                          const std::vector<double>& losses) {
  const Steps at{schedule.options, base, steps};
  if (schedule.kind == "constant") return within(base, 0);
  if (schedule.kind == "step") return decayed(at, base, steps / at.integer("every"));
  if (schedule.kind == "multistep") return decayed(at, base, milestones_passed(at));
  if (schedule.kind == "warmup_multistep") return decayed(at, base * warmup_at(at), milestones_passed(at));
  if (schedule.kind == "linear_warmup") return linear_warmup(at);
  if (schedule.kind == "cosine") return cosine(at);
  if (schedule.kind == "inverse_sqrt") return inverse_sqrt(at);
  if (schedule.kind == "plateau") return plateau(at, losses);
  return std::nullopt;
}

}  // namespace lockstep::compare
