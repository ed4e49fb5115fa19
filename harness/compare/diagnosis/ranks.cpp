#include "harness/compare/diagnosis/ranks.h"

#include "harness/compare/diagnosis/reduction.h"
#include "harness/compare/rounding.h"

namespace lockstep::compare {
namespace {

using trace::Channel;

/// Ranks that hold their mean, and yet other bits of it.
bool differ_by_rounding(const Scene& scene) {
  if (scene.right.run->world_size() < 3) return false;  // two addends have one sum
  if (!suspects_in_reduction(*scene.right.run, *scene.right.variant, scene.at.step).empty()) return false;
  const trace::Record* left = scene.left.find(scene.at.step, scene.at.channel, scene.at.tensor);
  const trace::Record* right = scene.right.find(scene.at.step, scene.at.channel, scene.at.tensor);
  if (left == nullptr || right == nullptr) return false;
  const auto rounding = RoundingBound(*scene.left.run, *scene.right.run).judge(*left, *right, scene.at.step, 0);
  return rounding && rounding->explained();
}

}  // namespace

std::vector<Suspect> suspects_in_ranks(const Scene& scene) {
  if (!scene.within_one_run()) return {};
  const Divergence& at = scene.at;
  const std::string where =
      at.place() + ": rank " + std::to_string(scene.left.rank) + " and rank " + std::to_string(scene.right.rank);
  if (at.channel == Channel::kWeight && scene.right.begins_at(at.step) && !scene.right.variant->train.checkpoint.load)
    return {{"init.rank_divergent", {where + " begin with different weights"}}};
  if (at.channel == Channel::kGradient && differ_by_rounding(scene))
    return {{"fp.rank_order", {where + " hold other bits of one mean, within what another order of adding explains"}}};
  return {};
}

}  // namespace lockstep::compare
