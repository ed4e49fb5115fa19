#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "harness/base/text.h"
#include "harness/laws/clip_norm.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"
#include "harness/laws/replicas.h"
#include "harness/laws/scales.h"
#include "harness/laws/seen_facts.h"
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

/// Norm of each part of the gradients that lies in a layout of its own.
std::map<std::string, double> norms_by_layout(const Gradients& gradients) {
  std::map<std::string, Gradients> parts;
  for (const auto& [name, gradient] : gradients) parts[gradient->layout].emplace(name, gradient);
  std::map<std::string, double> norms;
  for (const auto& [layout, part] : parts) norms[layout] = total_norm(part);
  return norms;
}

bool is_near(double norm, double other) { return std::fabs(norm - other) <= kNormError * other; }

/// The layouts of which a norm leaves all tensors out; empty: it is no norm of whole layouts.
std::vector<std::string> layouts_left_out(double norm, const Gradients& gradients) {
  const std::map<std::string, double> parts = norms_by_layout(gradients);
  constexpr std::size_t kMostLayouts = 8;
  if (parts.size() > kMostLayouts) return {};
  for (unsigned taken = 1; taken + 1 < 1U << parts.size(); ++taken) {
    double squares = 0;
    std::vector<std::string> out;
    unsigned bit = 1;
    for (const auto& [layout, part] : parts) {
      if ((taken & bit) != 0)
        squares += part * part;
      else
        out.push_back(layout.empty() ? "whole tensors" : layout);
      bit <<= 1U;
    }
    if (is_near(norm, std::sqrt(squares))) return out;
  }
  return {};
}

/// The norms by which the ranks clip in a step; empty where one is not told.
std::vector<double> norms_told(const trace::RunTrace& run, std::int64_t step) {
  std::vector<double> norms;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    norms.push_back(number_at(Held(run, rank, step), Channel::kLedger, "seen.total_norm"));
    if (!std::isfinite(norms.back())) return {};
  }
  return norms;
}

/// Whether each rank clips gradients of the same norm: in a pipeline each has others.
bool clip_the_same(const trace::RunTrace& run, std::int64_t step, double norm) {
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const double its = total_norm(before_call(Held(run, rank, step)));
    if (!std::isfinite(its) || !is_near(its, norm)) return false;
  }
  return true;
}

/// A program clips by another norm than that of the gradients it clips. Nothing where it may be meant: a norm of
/// another kind.
std::optional<Breach> by_another_norm(const trace::RunTrace& run, std::int64_t step, std::int64_t rank,
                                      const Gradients& before, double threshold) {
  const double norm = total_norm(before),
               own = number_at(Held(run, static_cast<std::size_t>(rank), step), Channel::kLedger, "seen.total_norm");
  if (before.empty() || !std::isfinite(own) || !has_norm(norm) || is_near(own, norm)) return std::nullopt;
  if (std::max(own, norm) <= threshold || !clip_the_same(run, step, norm)) return std::nullopt;
  const std::vector<double> told = norms_told(run, step);
  if (told.empty()) return std::nullopt;
  const double most = *std::max_element(told.begin(), told.end());
  const std::string seen = "it clips by the norm " + rounded(own, 5) + "; that of the gradients is " + rounded(norm, 5);
  const RecordPlace at{step, Channel::kGradient, before.begin()->first, rank};
  const std::string expected = "clipping by the norm of all gradients";
  const double squares = std::inner_product(told.begin(), told.end(), told.begin(), 0.0);
  const bool differ = std::any_of(told.begin(), told.end(), [&](double one) { return !is_near(one, told[0]); });
  if (differ) {
    if (most > (1 + kNormError) * norm || std::sqrt(squares) < (1 - kNormError) * norm) return std::nullopt;
    std::vector<std::string> all;
    for (const double one : told) all.push_back(rounded(one, 5));
    return seen_breach(at, expected, seen + "; the ranks' norms are " + join(all, ", ") + ": each leaves shards out",
                       "clip.norm_of_part");
  }
  if (const auto out = layouts_left_out(own, before); !out.empty())
    return seen_breach(at, expected, seen + "; it leaves out " + join(out, "; "), "clip.norm_of_part");
  for (std::int64_t copies = 2; copies <= run.world_size(); ++copies) {
    if (run.world_size() % copies != 0 || !is_near(own, std::sqrt(static_cast<double>(copies)) * norm)) continue;
    return seen_breach(at, expected,
                       seen + ", and so sqrt(" + std::to_string(copies) + ") times too large: as if " +
                           std::to_string(copies) + " ranks held other gradients, which hold the same",
                       "clip.norm_over_ranks");
  }
  return std::nullopt;
}

/// Whether a gradient of the step is a term of a sum, and has no value on any rank.
bool has_terms(const Held& held) {
  const auto entries = held.all(Channel::kLedger);
  return std::any_of(entries.begin(), entries.end(),
                     [](const trace::Record* entry) { return entry->name.starts_with("seen.unread gradient "); });
}

/// Steps in which a program clips once, by the norm of what it gives.
Outcome judge_program(const trace::RunTrace& run) {
  Outcome outcome;
  std::optional<Breach> wrong_norm;
  for_each_own_state(run, outcome, [&](std::int64_t step, std::int64_t rank) {
    const Held held(run, static_cast<std::size_t>(rank), step);
    const double threshold = number_at(held, Channel::kLedger, "seen.clip_norm");
    const trace::Record* calls = held.find(Channel::kLedger, "seen.clips");
    const bool one = calls != nullptr && calls->integers == std::vector<std::int64_t>{1};
    if (!one || std::isnan(threshold) || has_terms(held)) return true;
    const Gradients before = before_call(held);
    wrong_norm = by_another_norm(run, step, rank, before, threshold);
    return !wrong_norm && clips(outcome, step, rank, held, before, threshold);
  });
  if (wrong_norm) {
    outcome.broken = wrong_norm;
    return outcome;
  }
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
