#include <cmath>
#include <optional>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/laws/held.h"
#include "harness/trace/entry.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using trace::Channel;

constexpr double kSameRatio = 1e-5;

/// The whole number that a sum over `ranks` was divided by to be `factor` times its mean; nothing where it is none, or
/// the right one.
std::optional<double> divisor_of(double factor, double ranks) {
  const double divisor = ranks / factor;
  if (!std::isfinite(divisor) || divisor < 0.5 || std::fabs(divisor / std::round(divisor) - 1) > kSameRatio)
    return std::nullopt;
  return std::round(divisor) == ranks ? std::nullopt : std::optional(std::round(divisor));
}

/// The reduced loss against the ranks' own ones.
std::vector<Suspect> of_loss(const Side& side, std::int64_t step) {
  double sum = 0;
  for (std::size_t rank = 0; rank < side.run->ranks.size(); ++rank) {
    for (const trace::Record* record : Held(*side.run, rank, step).all(Channel::kLoss)) {
      if (laws::is_own_loss(*record) && record->number) sum += *record->number;
    }
  }
  const auto ranks = static_cast<double>(side.run->ranks.size());
  const double reduced = laws::number_at(Held(*side.run, side.rank, step), Channel::kLoss, trace::entry::kReduced);
  const auto divisor = sum == 0 ? std::nullopt : divisor_of(reduced / (sum / ranks), ranks);
  if (!divisor) return {};
  return {{"loss.metric_divisor",
           {place_of(*side.run, step) + ": the ranks' own losses add up to " + rounded(sum, 6) +
                ", the reduced loss is " + rounded(reduced, 6),
            "the sum was divided by " + to_decimal(*divisor) + ", not by the " + to_decimal(ranks) + " ranks"}}};
}

/// The one factor between both sides' metrics of a step.
std::optional<double> metric_factor(const Held& left, const Held& right) {
  std::optional<double> factor;
  for (const trace::Record* its : right.all(Channel::kMetric)) {
    const double theirs = laws::number_at(left, Channel::kMetric, its->name);
    if (!its->number || theirs == 0 || !std::isfinite(theirs)) continue;
    const double ratio = *its->number / theirs;
    if (factor && std::fabs(ratio / *factor - 1) > kSameRatio) return std::nullopt;
    factor = ratio;
  }
  return factor;
}

std::vector<Suspect> of_metrics(const Scene& scene) {
  if (!scene.left || !scene.right) return {};
  const Held left(*scene.left.run, scene.left.rank, scene.at.step);
  const Held right(*scene.right.run, scene.right.rank, scene.at.step);
  const auto factor = metric_factor(left, right);
  if (!factor || *factor == 0 || std::fabs(*factor - 1) < kSameRatio) return {};
  const std::string weights = laws::same(left, right, Channel::kWeight) ? "; the weights are equal" : "";
  const auto named = [&](const Side& side, double divisor) {
    return std::vector<Suspect>{
        {"loss.metric_divisor",
         {"step " + std::to_string(scene.at.step) + ": the metrics of " + scene.right.run->run + " are " +
              rounded(*factor, 6) + " times those of " + scene.left.run->run + ", all alike" + weights,
          side.run->run + " divided its sums by " + to_decimal(divisor) + ", not by its " +
              std::to_string(side.run->world_size()) + " ranks"}}};
  };
  const auto ranks = [](const Side& side) { return static_cast<double>(side.run->world_size()); };
  if (const auto divisor = divisor_of(*factor, ranks(scene.right)); divisor && ranks(scene.right) > 1)
    return named(scene.right, *divisor);
  if (const auto divisor = divisor_of(1 / *factor, ranks(scene.left)); divisor && ranks(scene.left) > 1)
    return named(scene.left, *divisor);
  return {};
}

}  // namespace

std::vector<Suspect> suspects_in_metrics(const Scene& scene) {
  if (scene.at.channel == Channel::kLoss)
    return between(scene, [&](const Side& side) { return of_loss(side, scene.at.step); });
  return scene.at.channel == Channel::kMetric ? of_metrics(scene) : std::vector<Suspect>{};
}

}  // namespace lockstep::diagnosis
