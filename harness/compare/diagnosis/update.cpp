#include "harness/compare/diagnosis/update.h"

#include "harness/base/text.h"
#include "harness/compare/diagnosis/corruption.h"
#include "harness/compare/diagnosis/ranks.h"
#include "harness/compare/diagnosis/replicas.h"
#include "harness/compare/diagnosis/update_terms.h"
#include "harness/compare/laws/held.h"
#include "harness/compare/rounding.h"

namespace lockstep::compare {
namespace {

using trace::Channel;

/// Whether a rank's weights stay as they were in a step.
bool rests(const trace::RunTrace& run, std::size_t rank, std::int64_t step) {
  const Held before(run, rank, step - 1), now(run, rank, step);
  return now.all(Channel::kWeight).empty() || same(now, before, Channel::kWeight);
}

/// The counter of updates lags on a rank whose weights stand still.
std::vector<Suspect> suspects_in_counters(const trace::RunTrace& run, std::int64_t step) {
  const Held first(run, 0, step);
  for (const trace::Record* counter : first.all(Channel::kOptimizer)) {
    if (!counter->name.ends_with(".step") || !counter->norm) continue;
    for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
      const trace::Record* its = Held(run, rank, step).find(Channel::kOptimizer, counter->name);
      if (its == nullptr || !its->norm || *its->norm == *counter->norm) continue;
      const bool first_lags = *counter->norm < *its->norm;
      if (!rests(run, first_lags ? 0 : rank, step)) return {};
      return {{"step.skip_disagree",
               {"step " + std::to_string(step) + ", " + run.run + ": the optimizer of rank 0 counts " +
                to_decimal(*counter->norm) + " updates of " + counter->name + ", that of rank " + std::to_string(rank) +
                " " + to_decimal(*its->norm)}}};
    }
    return {};
  }
  return {};
}

/// Ranks of one run at one step, whatever the other side holds.
std::vector<Suspect> suspects_by_law(const Scene& scene) {
  const std::int64_t step = scene.at.step;
  const auto of = [&](auto suspects_of) { return between(scene, suspects_of); };
  auto found = of([&](const Side& side) { return suspects_in_counters(*side.run, step); });
  if (found.empty()) found = of([&](const Side& side) { return suspects_in_moving(*side.run, step); });
  if (found.empty())
    found = of([&](const Side& side) { return suspects_in_update_terms(*side.run, *side.variant, step); });
  return found;
}

/// Two trainings that begin with different weights, and load none.
std::vector<Suspect> suspects_in_beginning(const Scene& scene) {
  if (scene.at.channel != Channel::kWeight || !scene.left || !scene.right || scene.within_one_run()) return {};
  for (const Side* side : {&scene.left, &scene.right}) {
    if (!side->begins_at(scene.at.step) || side->variant->train.checkpoint.load) return {};
  }
  if (auto found = suspects_in_ranks(scene); !found.empty()) return found;
  if (draw_otherwise(*scene.left.run, *scene.right.run)) return {};
  const scenario::TrainSpec &left = scene.left.variant->train, &right = scene.right.variant->train;
  std::vector<std::string> evidence{scene.at.place() + ": the weights differ before the first update"};
  if (left.seed.base != right.seed.base || left.seed.policy != right.seed.policy)
    evidence.push_back("the seeds are " + left.seed.policy + " " + std::to_string(left.seed.base) + " and " +
                       right.seed.policy + " " + std::to_string(right.seed.base));
  return {{"init.weights", evidence}};
}

}  // namespace

std::vector<Suspect> suspects_in_update(const Scene& scene) {
  const Channel channel = scene.at.channel;
  if (channel < Channel::kOptimizer || channel > Channel::kEma) return {};
  if (auto found = suspects_in_beginning(scene); !found.empty()) return found;
  if (auto found = suspects_in_corruption(scene); !found.empty()) return found;
  if (channel == Channel::kBuffer) return suspects_in_buffers(scene);
  if (channel == Channel::kEma)
    return between(scene,
                   [&](const Side& side) { return suspects_in_averages(*side.run, *side.variant, scene.at.step); });
  return suspects_by_law(scene);
}

}  // namespace lockstep::compare
