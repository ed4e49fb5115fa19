#include "harness/audit/measured.h"

#include <algorithm>
#include <cmath>

#include "harness/laws/contents.h"
#include "harness/laws/rate_curve.h"
#include "harness/laws/scales.h"

namespace lockstep::audit {
namespace {

using trace::Channel;
using trace::Record;

/// Sum of the squared norms of a step's records in a channel; nothing where one is not finite, or none is there.
std::optional<double> squares(const trace::Step* step, Channel channel) {
  if (step == nullptr) return std::nullopt;
  double total = 0;
  bool any = false;
  for (const Record& record : step->records) {
    if (record.channel != channel || !record.norm) continue;
    total += *record.norm * *record.norm;
    any = true;
  }
  return any && std::isfinite(total) ? std::optional(total) : std::nullopt;
}

/// Sum over the weights of the squared norms of their differences between two steps.
std::optional<double> squared_distance(const trace::Step* from, const trace::Step* to) {
  if (from == nullptr || to == nullptr) return std::nullopt;
  double total = 0;
  bool any = false;
  for (const Record& record : from->records) {
    if (record.channel != Channel::kWeight || !record.sketch) continue;
    const Record* const other = to->find(Channel::kWeight, record.name);
    if (other == nullptr || !other->sketch) return std::nullopt;
    const double distance = trace::estimated_norm(trace::difference(*record.sketch, *other->sketch));
    total += distance * distance;
    any = true;
  }
  return any && std::isfinite(total) ? std::optional(total) : std::nullopt;
}

const trace::Step* last_step(const trace::RunTrace& run) {
  return run.ranks.empty() || run.ranks[0].steps.empty() ? nullptr : &run.ranks[0].steps.back();
}

}  // namespace

bool has_equal_targets(const trace::RunTrace& run) {
  std::optional<std::int64_t> all;
  for (const trace::Trace& rank : run.ranks) {
    for (const trace::Step& step : rank.steps) {
      const Record* const targets = step.find(Channel::kLedger, "targets");
      if (targets == nullptr || targets->integers.empty()) continue;
      if (all.value_or(targets->integers[0]) != targets->integers[0]) return false;
      all = targets->integers[0];
    }
  }
  return all.has_value();
}

std::optional<double> samples_in_update(const trace::RunTrace& run) {
  double total = 0;
  for (const trace::Trace& rank : run.ranks) {
    const trace::Step* const step = rank.find(0);
    const Record* const ids = step == nullptr ? nullptr : laws::samples_in(*step);
    if (ids != nullptr) total += laws::count_of(*ids);
  }
  return total > 0 ? std::optional(total) : std::nullopt;
}

std::optional<double> largest_rate(const trace::RunTrace& run) {
  std::optional<double> largest;
  for (const auto& [step, rate] : laws::rates_of(run.ranks[0], "learning_rate"))
    largest = std::max(largest.value_or(rate), rate);
  return largest;
}

std::optional<double> distance_at_end(const trace::RunTrace& left, const trace::RunTrace& right) {
  const auto distance = squared_distance(last_step(left), last_step(right));
  const auto norm = squares(last_step(left), Channel::kWeight);
  if (!distance || !norm || *norm == 0) return std::nullopt;
  return std::sqrt(*distance / *norm);
}

std::optional<double> order_of(double at_rate, double at_half) {
  if (!(at_rate > 0) || !(at_half > 0)) return std::nullopt;
  return std::log2(at_rate / at_half);
}

std::optional<double> first_update(const trace::RunTrace& run) {
  if (run.ranks.empty()) return std::nullopt;
  const auto distance = squared_distance(run.ranks[0].find(trace::kInitialStep), run.ranks[0].find(0));
  return distance ? std::optional(std::sqrt(*distance)) : std::nullopt;
}

std::optional<double> noise_scale(const trace::RunTrace& run) {
  if (run.ranks.size() < 2) return std::nullopt;
  const double ranks = static_cast<double>(run.ranks.size()), all = samples_in_update(run).value_or(0),
               own = all / ranks;
  const auto mean = squares(run.ranks[0].find(0), Channel::kGradient);
  double of_ranks = 0;
  for (const trace::Trace& rank : run.ranks) {
    const auto local = squares(rank.find(0), Channel::kGradientLocal);
    if (!local) return std::nullopt;
    of_ranks += *local / ranks;
  }
  if (!mean || !(own > 0)) return std::nullopt;
  const double gradient = (all * *mean - own * of_ranks) / (all - own);
  const double noise = (of_ranks - *mean) / (1 / own - 1 / all);
  return gradient > 0 && noise > 0 ? std::optional(noise / gradient) : std::nullopt;
}

}  // namespace lockstep::audit
