#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "harness/compare/rounding.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/replicas_causes.h"
#include "harness/laws/held.h"
#include "harness/laws/reduced_sum.h"

namespace lockstep::diagnosis {
namespace {

using compare::Divergence;
using compare::Suspect;
using trace::Channel;

/// Weights are unrelated if they leave more of each other, squared.
constexpr double kUnrelated = 0.25;

/// Two ranks of one run.
struct RanksApart {
  Side first, second;

  std::string text() const { return "rank " + std::to_string(first.rank) + " and rank " + std::to_string(second.rank); }
};

/// Rank 0, and the first rank that holds something else at the place; nothing where all hold the same.
std::optional<RanksApart> ranks_apart(Side side, const Divergence& at) {
  side.rank = 0;
  const trace::Record* first = side.find(at.step, at.channel, at.tensor);
  for (Side other = side; first != nullptr && ++other.rank < side.run->ranks.size();) {
    const trace::Record* found = other.find(at.step, at.channel, at.tensor);
    if (found != nullptr && !trace::same_bits(first, found)) return RanksApart{side, other};
  }
  return std::nullopt;
}

/// Ranks that hold their mean, and yet other bits of it.
bool differ_by_rounding(const RanksApart& ranks, const Divergence& at) {
  const trace::RunTrace& run = *ranks.first.run;
  if (run.world_size() <= 2) return false;  // two addends have one sum
  if (laws::ReductionLaw(run, *ranks.first.promises).first_broken(at.step)) return false;
  const trace::Record* left = ranks.first.find(at.step, at.channel, at.tensor);
  const trace::Record* right = ranks.second.find(at.step, at.channel, at.tensor);
  if (left == nullptr || right == nullptr || !laws::is_plain(*left)) return false;
  const auto rounding = compare::RoundingBound::of_one_step(run, run).judge(*left, *right, at.step, 0);
  return rounding && rounding->explained();
}

/// Ranks that begin with weights which have nothing to do with each other: of what was only touched or scaled, the one
/// is nearly a multiple of the other.
std::vector<Suspect> suspects_in_beginning(const RanksApart& ranks, const Divergence& at) {
  const laws::Held left(*ranks.first.run, ranks.first.rank, at.step),
      right(*ranks.second.run, ranks.second.rank, at.step);
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
  if (apart == 0 || !(unrelated > kUnrelated * size)) return {};
  return {{"init.rank_divergent",
           {at.place() + ": " + ranks.text() + " start with different weights, in " + std::to_string(apart) +
            " unrelated tensors"}}};
}

std::vector<Suspect> suspects_of(const RanksApart& ranks, const Divergence& at) {
  const bool loads = ranks.first.promises->train.checkpoint.load.has_value();
  if (at.channel == Channel::kWeight && ranks.first.begins_at(at.step)) {
    auto found = loads ? std::vector<Suspect>{} : suspects_in_beginning(ranks, at);
    return found.empty() ? suspects_in_written_weights(ranks.first, at.step) : found;
  }
  if (at.channel == Channel::kGradient && differ_by_rounding(ranks, at))
    return {{"fp.rank_order",
             {at.place() + ": " + ranks.text() +
              " hold different bits of one mean, within the rounding of another order"}}};
  return {};
}

/// Whether a weight has another shape on the other side: a rank holds a part of it, and not its copy.
bool splits_tensors_itself(const Scene& scene) {
  if (!scene.left || !scene.right) return false;
  const auto left = laws::Held(*scene.left.run, scene.left.rank, scene.at.step).all(Channel::kWeight);
  return std::any_of(left.begin(), left.end(), [&](const trace::Record* weight) {
    const trace::Record* other = scene.right.find(scene.at.step, Channel::kWeight, weight->name);
    return other != nullptr && other->shape != weight->shape;
  });
}

}  // namespace

std::vector<Suspect> suspects_in_ranks(const Scene& scene) {
  if (scene.within_one_run()) return suspects_of({scene.left, scene.right}, scene.at);
  if (splits_tensors_itself(scene)) return {};
  return between(scene, [&](const Side& side) {
    const auto apart = ranks_apart(side, scene.at);
    return apart ? suspects_of(*apart, scene.at) : std::vector<Suspect>{};
  });
}

}  // namespace lockstep::diagnosis
