#include <algorithm>

#include "harness/diagnosis/diagnosers.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using trace::Channel;

/// Samples of one forward pass.
std::int64_t share_of(const Side& side) { return side.promises->train.batch.micro_size(side.run->world_size()); }

bool has_running_means(const Side& side) {
  for (const trace::Step& step : side.run->ranks[side.rank].steps) {
    for (const trace::Record& record : step.records) {
      if (record.channel == Channel::kBuffer && record.name.ends_with("running_mean")) return true;
    }
  }
  return false;
}

/// Statistics of all ranks together are those of one: such a layer knows no shares.
bool synchronizes(const Side& side) {
  return side.promises->train.model.options.value("norm", "") == name_of(recipe::Norm::kSyncBatch);
}

}  // namespace

std::vector<Suspect> suspects_in_shares(const Scene& scene) {
  if (!scene.left || !scene.right || scene.within_one_run()) return {};
  const bool follows = trace::info(scene.at.channel).part == trace::Part::kComputed;
  const std::int64_t left = share_of(scene.left), right = share_of(scene.right);
  if (!follows || left == right) return {};
  const std::string seen = "a forward pass takes " + std::to_string(left) + " samples on one side, " +
                           std::to_string(right) + " on the other";
  std::vector<Suspect> found;
  if (has_running_means(scene.right) && !synchronizes(scene.right))
    found.push_back({"model.batchnorm_local", {seen, "the model normalises by the statistics of that share"}});
  if (scene.right.promises->train.model.options.value("dropout", 0.0) > 0)
    found.push_back({"rng.layout_bound", {seen, "the model draws dropout masks in the order of that share"}});
  return found;
}

}  // namespace lockstep::diagnosis
