#include "harness/compare/diagnosis/ranks.h"

#include <cmath>

#include "harness/compare/diagnosis/reduction.h"
#include "harness/compare/laws/held.h"
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
  if (left == nullptr || right == nullptr || !is_plain(*left)) return false;
  const auto rounding = RoundingBound(*scene.left.run, *scene.right.run).judge(*left, *right, scene.at.step, 0);
  return rounding && rounding->explained();
}

/// Ranks that begin with weights which have nothing to do with each other: of what was only touched or scaled, the one
/// is nearly a multiple of the other.
std::vector<Suspect> suspects_in_beginning(const Scene& scene) {
  const Held left(*scene.left.run, scene.left.rank, scene.at.step);
  const Held right(*scene.right.run, scene.right.rank, scene.at.step);
  std::size_t apart = 0;
  double size = 0, unrelated = 0;  // squared
  for (const trace::Record* own : right.all(Channel::kWeight)) {
    const trace::Record* other = left.find(Channel::kWeight, own->name);
    if (other == nullptr || other->digest == own->digest) continue;
    if (!own->sketch || !other->sketch) return {};
    ++apart;
    size += std::pow(own->sketch->norm, 2);
    const auto scale = trace::scale_between(*other->sketch, *own->sketch);
    unrelated += scale ? std::pow(scale->residual * own->sketch->norm, 2) : 0;
  }
  if (apart == 0 || !(unrelated > size / 4)) return {};
  return {{"init.rank_divergent",
           {scene.at.place() + ": rank " + std::to_string(scene.left.rank) + " and rank " +
            std::to_string(scene.right.rank) + " begin with different weights, in " + std::to_string(apart) +
            " tensors, which have nothing in common"}}};
}

}  // namespace

std::vector<Suspect> suspects_in_ranks(const Scene& scene) {
  if (!scene.within_one_run()) return {};
  const Divergence& at = scene.at;
  const std::string where =
      at.place() + ": rank " + std::to_string(scene.left.rank) + " and rank " + std::to_string(scene.right.rank);
  if (at.channel == Channel::kWeight && scene.right.begins_at(at.step) && !scene.right.variant->train.checkpoint.load)
    return suspects_in_beginning(scene);
  if (at.channel == Channel::kGradient && differ_by_rounding(scene))
    return {{"fp.rank_order", {where + " hold other bits of one mean, within what another order of adding explains"}}};
  return {};
}

}  // namespace lockstep::compare
