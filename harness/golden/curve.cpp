#include "harness/golden/curve.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/trace/entry.h"

namespace lockstep::golden {
namespace {

using trace::Channel;
using trace::Record;
using trace::RunTrace;

constexpr int kDigitsOfCurve = 6;

/// Norm of all gradients of rank 0, before anything is done to them.
std::optional<double> gradient_norm(const RunTrace& run, std::int64_t step) {
  double squares = 0;
  bool any = false;
  const trace::Step* const found = run.ranks.front().find(step);
  if (found == nullptr) return std::nullopt;
  for (const Record& record : found->records) {
    if (record.channel != Channel::kGradient || !record.norm || record.name.find(' ') != std::string::npos) continue;
    squares += *record.norm * *record.norm;
    any = true;
  }
  return any ? std::optional(std::sqrt(squares)) : std::nullopt;
}

std::optional<double> final_gradient_norm(const RunTrace& run, std::int64_t step) {
  const auto gradients = laws::final_gradients(laws::Held(run, 0, step));
  const bool have_norms =
      std::all_of(gradients.begin(), gradients.end(), [](const auto& one) { return one.second->norm.has_value(); });
  return gradients.empty() || !have_norms ? std::nullopt : std::optional(laws::total_norm(gradients));
}

std::optional<double> learning_rate(const RunTrace& run, std::int64_t step) {
  const Record* const rate = run.ranks.front().find(step, Channel::kLedger, trace::entry::kLearningRate);
  return rate == nullptr ? std::nullopt : rate->number;
}

std::optional<double> mean_loss(const RunTrace& run, std::int64_t step) {
  double sum = 0;
  std::int64_t count = 0;
  for (const trace::Trace& rank : run.ranks) {
    const trace::Step* const found = rank.find(step);
    if (found == nullptr) continue;
    for (const Record& record : found->records) {
      if (record.channel != Channel::kLoss || !record.number || record.name == trace::entry::kReduced) continue;
      sum += *record.number;
      ++count;
    }
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

}  // namespace

std::string curve_at(const RunTrace& run, std::int64_t step) {
  std::string text;
  const auto append = [&](const char* name, std::optional<double> value) {
    if (value) text += std::string(" ") + name + " " + rounded(*value, kDigitsOfCurve);
  };
  append("loss", mean_loss(run, step));
  append("gradient", gradient_norm(run, step));
  append("rate", learning_rate(run, step));
  return text;
}

std::vector<CurvePoint> points_of(const RunTrace& run) {
  std::vector<CurvePoint> points;
  for (const trace::Step& step : run.ranks.front().steps) {
    const CurvePoint point{.step = step.step,
                           .loss = mean_loss(run, step.step),
                           .gradient = final_gradient_norm(run, step.step),
                           .rate = learning_rate(run, step.step)};
    if (step.step >= 0 && (point.loss || point.gradient || point.rate)) points.push_back(point);
  }
  return points;
}

std::vector<double> losses_of(const RunTrace& run) {
  std::vector<double> losses;
  for (const trace::Step& step : run.ranks.front().steps) {
    if (const auto loss = mean_loss(run, step.step)) losses.push_back(*loss);
  }
  return losses;
}

std::string bars_of(const std::vector<double>& numbers) {
  static constexpr std::array<const char*, 8> kBars = {"\u2581", "\u2582", "\u2583", "\u2584",
                                                       "\u2585", "\u2586", "\u2587", "\u2588"};
  constexpr std::size_t kMostBars = 40;
  if (numbers.empty()) return "no losses";
  const auto [least, largest] = std::minmax_element(numbers.begin(), numbers.end());
  const double range = *largest - *least;
  std::string bars;
  const std::size_t count = std::min(numbers.size(), kMostBars);
  for (std::size_t i = 0; i < count; ++i) {
    const double part = range > 0 ? (numbers[i * numbers.size() / count] - *least) / range : 0;
    bars += std::isfinite(part) ? kBars[static_cast<std::size_t>(std::lround(part * (kBars.size() - 1)))] : "?";
  }
  return bars + "  " + rounded(*least, 4) + " to " + rounded(*largest, 4);
}

}  // namespace lockstep::golden
