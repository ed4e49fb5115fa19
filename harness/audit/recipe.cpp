#include "harness/audit/recipe.h"

#include <algorithm>

#include "harness/base/text.h"
#include "harness/recipe/optimizer_rule.h"

namespace lockstep::audit {

std::optional<std::int64_t> Recipe::global_batch(std::int64_t world_size) const {
  if (!variant_.knows("batch")) return std::nullopt;
  recipe::BatchSpec batch = train().batch;
  batch.ranks_per_node = std::min(batch.ranks_per_node, world_size);
  return batch.global_size(world_size);
}

bool is_scale_free(const recipe::TrainSpec& train) { return recipe::traits_of(train.optimizer.kind).is_scale_free; }

std::string reasons(const std::vector<Obstacle>& obstacles) {
  std::vector<std::string> words;
  for (const Obstacle& obstacle : obstacles) words.push_back(obstacle.why);
  return join(words, "; ");
}

std::string remedies(const std::vector<Obstacle>& obstacles) {
  std::vector<std::string> words;
  for (const Obstacle& obstacle : obstacles) {
    if (!obstacle.remedy.empty()) words.push_back(obstacle.remedy);
  }
  return join(words, "; ");
}

}  // namespace lockstep::audit
