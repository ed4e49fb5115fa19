#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/scales.h"
#include "harness/recipe/rounded.h"

/// The worker recorded slopes of the loss (train/slopes.h): the loss alone tells what the gradients have to be.
namespace lockstep::laws {
namespace {

using trace::Channel;

/// A bound above this part of the gradient judges nothing: the slope crosses a kink, or the dtype is too coarse.
constexpr double kBlunt = 0.25;

/// A factor is known where the slope is so many times its bound.
constexpr double kClear = 100;

/// A parameter's gradient along its sketch's signs, and the slope of the loss along them.
struct Compared {
  double gradient = 0, slope = 0, bound = 0;
  const trace::Record* record = nullptr;
};

/// Nothing where the bound is blunt. `coarsest`: unit roundoff of what computes, which the copy may round less by
/// chance.
std::optional<Compared> compared(const Held& held, const std::string& parameter, double scale, double coarsest) {
  const trace::Record* gradient = held.find(Channel::kGradientLocal, parameter);
  if (gradient == nullptr || !gradient->sketch) return std::nullopt;
  const auto& buckets = gradient->sketch->buckets;
  const double norm = gradient->sketch->norm / scale;
  const double slope = number_at(held, Channel::kLedger, "seen.slope " + parameter);
  const double error = number_at(held, Channel::kLedger, "seen.slope_error " + parameter);
  const double rounding = number_at(held, Channel::kLedger, "seen.slope_rounding " + parameter);
  const double bound = kOfCopy * (error + rounding + trace::unit_roundoff(gradient->dtype) * norm) + coarsest * norm;
  const double along = std::accumulate(buckets.begin(), buckets.end(), 0.0) / scale;
  if (!std::isfinite(along) || !(bound <= kBlunt * std::max(norm, std::fabs(slope)))) return std::nullopt;
  return Compared{.gradient = along, .slope = slope, .bound = bound, .record = gradient};
}

/// A loss that depends on a parameter which has no gradient: its slope; nothing where it may be 0.
std::optional<double> slope_without_gradient(const Held& held, const std::string& parameter) {
  if (held.find(Channel::kGradientLocal, parameter) != nullptr) return std::nullopt;
  const double slope = number_at(held, Channel::kLedger, "seen.slope " + parameter);
  const double bound = kOfCopy * (number_at(held, Channel::kLedger, "seen.slope_error " + parameter) +
                                  number_at(held, Channel::kLedger, "seen.slope_rounding " + parameter));
  return bound <= kBlunt * std::fabs(slope) ? std::optional(slope) : std::nullopt;
}

/// The factor between all gradients and slopes, as the clearest one tells it; nothing where it is not one.
std::optional<double> factor_of(const std::vector<Compared>& all) {
  const auto clearness = [](const Compared& one) { return std::fabs(one.slope) / one.bound; };
  const auto clearest = std::max_element(
      all.begin(), all.end(), [&](const Compared& a, const Compared& b) { return clearness(a) < clearness(b); });
  if (clearest == all.end() || !(clearness(*clearest) > kClear)) return std::nullopt;
  const double factor = clearest->gradient / clearest->slope;
  const bool shared = std::all_of(all.begin(), all.end(), [&](const Compared& one) {
    return clearness(one) <= kClear || std::fabs(one.gradient / one.slope - factor) <= kFactorFits * std::fabs(factor);
  });
  return shared ? std::optional(factor) : std::nullopt;
}

}  // namespace

Outcome judge_backward(const trace::RunTrace& run, const scenario::Promises& promises) {
  Outcome outcome;
  bool any = false;
  const Json& header = run.ranks[0].header;
  const auto dtype = trace::dtype_named(header.is_object() ? header.value("arithmetic", "") : "");
  const double coarsest = dtype ? trace::unit_roundoff(*dtype) : 0;
  for_each_state(run, [&](std::int64_t step, std::int64_t rank, const Held& held) {
    const double scale = loss_scale_of(held).value_or(1);
    std::vector<Compared> all;
    for (const trace::Record* entry : held.all(Channel::kLedger)) {
      constexpr std::string_view kSlope = "seen.slope ";
      if (!entry->name.starts_with(kSlope)) continue;
      any = true;
      const std::string parameter = entry->name.substr(kSlope.size());
      if (const auto one = compared(held, parameter, scale, coarsest)) all.push_back(*one);
      const bool is_one =
          promises.train.batch.accumulation == 1;  // else a parameter may take part in some micro-batches
      if (const auto slope = slope_without_gradient(held, parameter); slope && is_one && !outcome.broken)
        outcome.broken = Breach{.at = {step, Channel::kGradientLocal, parameter, rank},
                                .expected = "a gradient: the slope of the loss is " + rounded(*slope, 9),
                                .actual = "none"};
    }
    outcome.judged += all.size();
    if (outcome.broken) return false;
    for (const Compared& one : all) {
      if (std::fabs(one.gradient - one.slope) <= one.bound) continue;
      outcome.broken = Breach{.at = {step, Channel::kGradientLocal, one.record->name, rank},
                              .expected = "the slope of the loss, " + rounded(one.slope, 9),
                              .actual = rounded(one.gradient, 9) + "; rounding explains " + rounded(one.bound, 3)};
      if (const auto factor = factor_of(all); factor && std::fabs(*factor - 1) > kFactorFits) {
        outcome.broken->relation = (all.size() > 1 ? "all gradients that can be judged are " : "the gradient is ") +
                                   rounded(*factor, 4) + " times the derivative of the loss";
        outcome.broken->evidence = outcome.broken->relation;
      }
      return false;
    }
    return true;
  });
  if (!any && !promises.known)
    return cannot_tell(
        "no slopes are recorded",
        "set train.record.slopes: the worker records the slopes of its losses then; a check of laws does");
  if (!any) return cannot_tell("a program's recorder records no slopes");
  if (outcome.judged == 0 && !outcome.broken)
    return cannot_tell("the slopes are less certain than a quarter of the gradients");
  return outcome;
}

}  // namespace lockstep::laws
