#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/base/text.h"
#include "harness/compare/rounding.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/replicas_causes.h"
#include "harness/diagnosis/update_terms_causes.h"
#include "harness/laws/held.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/scales.h"
#include "harness/laws/seen_facts.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using trace::Channel;

/// Whether a rank's weights stay as they were in a step.
bool rests(const trace::RunTrace& run, std::size_t rank, std::int64_t step) {
  const Held before(run, rank, step - 1), now(run, rank, step);
  return now.all(Channel::kWeight).empty() || laws::same(now, before, Channel::kWeight);
}

/// The counter of updates lags on a rank whose weights stand still.
std::vector<Suspect> suspects_in_lagging_counters(const trace::RunTrace& run, std::int64_t step) {
  const Held first(run, 0, step);
  for (const trace::Record* counter : first.all(Channel::kOptimizer)) {
    if (!counter->name.ends_with(".step") || !counter->norm) continue;
    for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
      const trace::Record* its = Held(run, rank, step).find(Channel::kOptimizer, counter->name);
      if (its == nullptr || !its->norm || *its->norm == *counter->norm) continue;
      const bool first_lags = *counter->norm < *its->norm;
      if (!rests(run, first_lags ? 0 : rank, step)) return {};
      return {
          {"step.skip_disagree",
           {place_of(run, step) + ": the optimizer of rank 0 counts " + to_decimal(*counter->norm) + " updates of " +
            counter->name + ", that of rank " + std::to_string(rank) + " " + to_decimal(*its->norm)}}};
    }
    return {};
  }
  return {};
}

/// Ranks of one run at one step, whatever the other side holds.
std::vector<Suspect> suspects_by_update_laws(const Scene& scene) {
  const std::int64_t step = scene.at.step;
  const auto of = [&](auto suspects_of) { return between(scene, suspects_of); };
  auto found = of([&](const Side& side) { return suspects_in_lagging_counters(*side.run, step); });
  if (found.empty()) found = of([&](const Side& side) { return suspects_in_moving(*side.run, step); });
  if (found.empty())
    found = of([&](const Side& side) { return suspects_in_update_terms(*side.run, *side.promises, step); });
  return found;
}

/// What moves the weights beside what moves the other side's is one multiple of the weights before: a decay, whatever
/// the optimizer makes of gradients.
std::vector<Suspect> suspects_in_decay(const Scene& scene) {
  constexpr double kFew = 8;  // of so few elements, anything may be a multiple
  const std::int64_t step = scene.at.step;
  if (scene.left.promises->train.optimizer.options != scene.right.promises->train.optimizer.options) return {};
  const auto held = [](const Side& side, std::int64_t at) { return Held(*side.run, side.rank, at); };
  const Held left = held(scene.left, step), left_before = held(scene.left, step - 1);
  const Held right = held(scene.right, step), right_before = held(scene.right, step - 1);
  std::optional<double> factor;
  double most = 0;
  for (const trace::Record* its : right.all(Channel::kWeight)) {
    const trace::Record* own = left.find(Channel::kWeight, its->name);
    const trace::Record* its_before = right_before.find(Channel::kWeight, its->name);
    const trace::Record* before = left_before.find(Channel::kWeight, its->name);
    for (const trace::Record* record : {its, own, its_before, before}) {
      if (record == nullptr || !record->sketch) return {};
    }
    if (trace::same_bits(own, its)) continue;  // of a group without decay
    const trace::Sketch apart =
        laws::sum_of({{1, &*its->sketch}, {-1, &*its_before->sketch}, {-1, &*own->sketch}, {1, &*before->sketch}});
    const auto of_before = trace::scale_between(*before->sketch, apart);
    const auto of_after = trace::scale_between(*own->sketch, apart);  // scaled behind the update
    if (!of_before || of_before->residual > laws::kFactorFits || (of_after && of_after->residual < of_before->residual))
      return {};
    if (factor && std::fabs(of_before->factor - *factor) > laws::kFactorFits * std::fabs(*factor)) return {};
    factor = of_before->factor;
    most = std::max(most, laws::count_of(*its));
  }
  if (most <= kFew) return {};
  return {
      {"opt.decay_scale",
       {scene.at.place() + ": the update of " + scene.right.run->run + " exceeds the update of " + scene.left.run->run +
        " by " + rounded(*factor, 5) + " times the weights before it, in all tensors that differ"}}};
}

/// Two trainings that begin with different weights, and load none.
std::vector<Suspect> suspects_in_beginning(const Scene& scene) {
  if (scene.at.channel != Channel::kWeight || !scene.left || !scene.right || scene.within_one_run()) return {};
  if (scene.at.lacks(compare::Missing::kRecord)) return {};  // it goes by another name, or was not recorded
  for (const Side* side : {&scene.left, &scene.right}) {
    if (!side->begins_at(scene.at.step) || side->promises->train.checkpoint.load) return {};
    if (laws::has_loaded(*side->run)) return {};
  }
  if (auto found = suspects_in_ranks(scene); !found.empty()) return found;
  if (compare::draw_otherwise(*scene.left.run, *scene.right.run)) return {};
  const recipe::TrainSpec &left = scene.left.promises->train, &right = scene.right.promises->train;
  std::vector<std::string> evidence{scene.at.place() + ": the weights differ before the first update"};
  if (left.seed.base != right.seed.base || left.seed.policy != right.seed.policy)
    evidence.push_back("the seeds are " + text_of(left.seed.policy) + " " + std::to_string(left.seed.base) + " and " +
                       text_of(right.seed.policy) + " " + std::to_string(right.seed.base));
  return {{"init.weights", evidence}};
}

}  // namespace

std::vector<Suspect> suspects_in_update(const Scene& scene) {
  const Channel channel = scene.at.channel;
  if (!trace::info(channel).is_state()) return {};
  if (auto found = suspects_in_beginning(scene); !found.empty()) return found;
  if (auto found = suspects_in_corruption(scene); !found.empty()) return found;
  if (channel == Channel::kBuffer) return suspects_in_buffers(scene);
  if (channel == Channel::kEma)
    return between(scene,
                   [&](const Side& side) { return suspects_in_averages(*side.run, *side.promises, scene.at.step); });
  auto found = suspects_by_update_laws(scene);
  const bool between_runs = scene.left && scene.right && !scene.within_one_run();
  if (found.empty() && channel == Channel::kWeight && between_runs) found = suspects_in_decay(scene);
  if (found.empty() && !scene.right.begins_at(scene.at.step))
    found = between(scene, [&](const Side& side) { return suspects_in_written_weights(side, scene.at.step); });
  return found;
}

}  // namespace lockstep::diagnosis
