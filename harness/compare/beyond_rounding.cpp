#include "harness/compare/beyond_rounding.h"

#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/compare/rounding.h"
#include "harness/compare/scope.h"
#include "harness/laws/held.h"
#include "harness/laws/reduced_sum.h"
#include "harness/recipe/optimizer_rule.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::Record;

constexpr double kFar = 16;

/// Whether it is a gradient as the reduction left it, or before: what clipping makes of it follows the kinks of all.
bool is_plain_gradient(const Record& record) {
  return trace::info(record.channel).is_gradient() && laws::is_plain(record);
}

/// Layer of the last gradient of a step, behind which no activation has a kink.
std::string last_layer(const trace::RunTrace& run, std::int64_t step) {
  std::string layer;
  const trace::Step* found = run.ranks[0].find(step);
  for (const Record& record : found == nullptr ? std::vector<Record>{} : found->records) {
    if (record.channel == Channel::kGradient && is_plain_gradient(record)) layer = laws::layer_of(record.name);
  }
  return layer;
}

/// The relation "no more than so many times the bound, or than rounding that grows as much in float64". *Lifetime*: of
/// both.
Relation within_times(const RoundingBound& bound, double times, const Relation& of_step, bool tells) {
  return [&bound, &of_step, times, tells](const Record& a, const Record& b, std::int64_t step,
                                          std::int64_t rank) -> std::optional<std::string> {
    const auto rounding = bound.judge(a, b, step, rank);
    if (!rounding || !std::isfinite(rounding->distance) || rounding->distance <= times * rounding->bound)
      return std::nullopt;
    if (tells && !of_step(a, b, step, rank)) return std::nullopt;
    return "the distance is at least " + rounded(rounding->distance, 3) + ", rounding explains " +
           rounded(rounding->bound, 3) + " at most";
  };
}

/// The first step that `open` finds anything in, at a place that nothing amplifies and that is `far`.
std::optional<Divergence> in_values(const Training& left, const Training& right, std::vector<Channel> channels,
                                    const Relation& open, const Relation& far) {
  std::erase_if(channels, [](Channel channel) { return !trace::info(channel).can_round(); });
  Scope scope = held_by_both(left.run, right.run);
  const auto first = compare_runs(left.run, right.run, channels, open, scope).first;
  if (!first) return std::nullopt;
  const std::string layer = last_layer(right.run, first->step);
  const bool smooth = !have_kinks(left.promises, right.promises);
  const auto is_linear = [](const scenario::Promises& promises) {
    return recipe::traits_of(promises.train.optimizer.kind).form == recipe::UpdateForm::kLinear;
  };
  const bool linear = is_linear(left.promises) && is_linear(right.promises);
  const bool of_update = linear && trace::info(first->channel).part == trace::Part::kUpdated;
  scope.first_step = first->step;
  return compare_runs(
             left.run, right.run, channels,
             [&](const Record& a, const Record& b, std::int64_t step, std::int64_t rank) -> std::optional<std::string> {
               const bool is_plain = a.channel == Channel::kLoss ||
                                     (is_plain_gradient(a) && (smooth || laws::layer_of(a.name) == layer)) ||
                                     (trace::info(a.channel).part == trace::Part::kUpdated && of_update);
               return step != first->step || !is_plain ? std::nullopt : far(a, b, step, rank);
             },
             scope)
      .first;
}

/// The first step in which one side alone holds something else than the mean of the ranks' own gradients.
std::optional<Divergence> in_reduction(const Training& left, const Training& right) {
  const laws::ReductionLaw of_left(left.run, left.promises), of_right(right.run, right.promises);
  for (const trace::Step& step : right.run.ranks[0].steps) {
    if (left.run.ranks[0].find(step.step) == nullptr) continue;
    const auto there = of_left.first_broken(step.step), here = of_right.first_broken(step.step);
    if (there.has_value() == here.has_value()) continue;
    const std::int64_t rank = here.value_or(*there);
    const laws::Reduction reduction = (here ? of_right : of_left).judge(step.step, rank);
    return Divergence{.step = step.step,
                      .channel = Channel::kGradient,
                      .tensor = reduction.broken[0],
                      .rank = rank < right.run.world_size() ? rank : 0,
                      .left = left.run.run,
                      .right = right.run.run,
                      .expected = "the mean or sum of the ranks' own gradients",
                      .actual = "in " + (here ? right : left).run.run + " " + rounded(reduction.distance, 3) +
                                " away; rounding explains " + rounded(reduction.bound, 3),
                      .class_ = scenario::Class::kSemantic,
                      .cause = "on one side only, the reduced gradient does not follow from the ranks' own gradients"};
  }
  return std::nullopt;
}

}  // namespace

bool have_kinks(const scenario::Promises& left, const scenario::Promises& right) {
  const auto is_smooth = [](const scenario::Promises& promises) {
    const recipe::ModelKind kind = promises.train.model.kind;
    return kind == recipe::ModelKind::kLinear ||
           kind == recipe::ModelKind::kTransformer;  // its activations are GELU and softmax
  };
  return !is_smooth(left) || !is_smooth(right);
}

std::optional<Divergence> beyond_rounding(const Training& left, const Training& right, const PrecisionLadder& ladder,
                                          const std::vector<Channel>& channels) {
  const RoundingBound bound(left.run, right.run);
  const Relation of_step = ladder.within_rounding_of_step();
  const bool reduces = std::find(channels.begin(), channels.end(), Channel::kGradient) != channels.end();
  std::optional<Divergence> first;
  for (const auto& found :
       {in_values(left, right, channels, within(bound), within_times(bound, kFar, of_step, !ladder.uses_16_bits())),
        in_values(left, right, channels, of_step, of_step), reduces ? in_reduction(left, right) : std::nullopt}) {
    const auto place = [](const Divergence& at) { return std::pair(at.step, at.channel); };
    if (found && (!first || place(*found) < place(*first))) first = found;
  }
  return first;
}

}  // namespace lockstep::compare
