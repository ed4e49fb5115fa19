#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/clip_norm.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"
#include "harness/laws/replicas.h"
#include "harness/recipe/rounded.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

using Gradients = std::map<std::string, const trace::Record*>;

/// A threshold in float32, and a product of it.
constexpr double kElementError = 0x1p-22;

/// Gradients before the recipe's clipping: unscaled where a step unscales.
Gradients before_clipping(const Held& held) {
  Gradients last;
  for (const trace::Record* record : held.all(Channel::kGradient)) {
    if (!record->name.starts_with("clipped ") && !is_handed_out(*record)) last[parameter_of(record->name)] = record;
  }
  return last;
}

/// Whether these gradients were clipped by their norm.
bool clips(Outcome& outcome, std::int64_t step, std::int64_t rank, const Held& held, const Gradients& before,
           double threshold) {
  const double norm = total_norm(before);
  if (before.empty() || !std::isfinite(norm) || (norm > 1 && !has_norm(norm))) return true;  // it overflows in float32
  const double factor = std::min(1.0, threshold / (norm + kNormEpsilon));
  const bool near = norm > (1 - kNormError) * threshold;
  for (const auto& [name, gradient] : before) {
    const trace::Record* clipped = held.find(Channel::kGradient, "clipped " + name);
    const Rule rule{.target = clipped == nullptr ? gradient : clipped,
                    .terms = {{factor, gradient}},
                    .relative = near ? kNormError : 0};
    if (keeps(outcome, rule, step, rank)) continue;
    outcome.broken->expected = "the gradient times " + rounded(factor, 5);
    outcome.broken->relation = "norm of all gradients: before " + rounded(norm, 5) + ", after " +
                               rounded(total_norm(final_gradients(held)), 5) + ", threshold " + to_decimal(threshold);
    return false;
  }
  return true;
}

/// Whether each sampled element was clipped by its value, after the norm of all where the recipe clips that, too.
bool clips_elements(Outcome& outcome, std::int64_t step, std::int64_t rank, const Held& held, const Gradients& before,
                    const recipe::GradientSpec& recipe) {
  double factor = 1, relative = kElementError;
  if (recipe.clip_norm) {
    const double norm = total_norm(before);
    if (!std::isfinite(norm) || (norm > 1 && !has_norm(norm))) return true;  // it overflows in float32
    factor = std::min(1.0, *recipe.clip_norm / (norm + kNormEpsilon));
    relative += norm > (1 - kNormError) * *recipe.clip_norm ? kNormError : 0;
  }
  const double most = *recipe.clip_value;
  for (const auto& [name, gradient] : before) {
    const trace::Record* clipped = held.find(Channel::kGradient, "clipped " + name);
    if (clipped == nullptr) clipped = gradient;
    for (std::size_t i = 0; i < std::min(gradient->elements.size(), clipped->elements.size()); ++i) {
      const double element = factor * gradient->elements[i], expected = std::clamp(element, -most, most);
      if (!std::isfinite(element)) continue;
      ++outcome.judged;
      if (std::fabs(clipped->elements[i] - expected) <= relative * std::fabs(expected)) continue;
      outcome.broken = Breach{.at = {step, Channel::kGradient, clipped->name, rank},
                              .expected = rounded(expected, 7) + " in element " + std::to_string(i) + " of its sample",
                              .actual = rounded(clipped->elements[i], 7)};
      outcome.broken->relation =
          "each element is clipped to " + to_decimal(most) + "; before it is " + rounded(element, 7);
      return false;
    }
  }
  return true;
}

/// The gradients that a program's one call of the step clipped, as they were before it.
Gradients before_call(const Held& held) {
  Gradients before, last;
  for (const trace::Record* record : held.all(Channel::kGradient)) {
    if (is_handed_out(*record)) continue;
    const std::string parameter = parameter_of(record->name);
    if (record->name.starts_with("clipped ") && last.contains(parameter)) before[parameter] = last[parameter];
    last[parameter] = record;
  }
  return before;
}

/// Steps in which a program clips once, by the norm of what it gives.
Outcome judge_program(const trace::RunTrace& run) {
  Outcome outcome;
  for_each_own_state(run, outcome, [&](std::int64_t step, std::int64_t rank) {
    const Held held(run, static_cast<std::size_t>(rank), step);
    const double threshold = number_at(held, Channel::kLedger, "seen.clip_norm");
    const trace::Record* calls = held.find(Channel::kLedger, "seen.clips");
    const bool one = calls != nullptr && calls->integers == std::vector<std::int64_t>{1};
    if (!one || std::isnan(threshold)) return true;
    return clips(outcome, step, rank, held, before_call(held), threshold);
  });
  if (outcome.judged == 0 && outcome.because.empty())
    outcome.because = "the program calls clip_grad_norm_ in no step, or several times in each";
  return unless_changed_by_hand(std::move(outcome));
}

}  // namespace

std::string no_clipping_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  const recipe::GradientSpec& recipe = promises.train.gradient;
  return promises.known || recipe.clip_norm || recipe.clip_value ? "" : "the recipe does not clip its gradients";
}

Outcome judge_clipping(const trace::RunTrace& run, const scenario::Promises& promises) {
  const recipe::GradientSpec& recipe = promises.train.gradient;
  if (promises.known) return judge_program(run);
  Outcome outcome;
  for_each_own_state(run, outcome, [&](std::int64_t step, std::int64_t rank) {
    const Held held(run, static_cast<std::size_t>(rank), step);
    if (recipe.clip_value) return clips_elements(outcome, step, rank, held, before_clipping(held), recipe);
    return clips(outcome, step, rank, held, before_clipping(held), *recipe.clip_norm);
  });
  return outcome;
}

}  // namespace lockstep::laws
